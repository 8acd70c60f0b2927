"""docker-compose.yml against the specification, and against what memline's code has: settings, commands, stages, ports, files."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import typer
import yaml

from memline import __version__
from memline.cli.app import app
from memline.cli.worker import parse_stages
from memline.ledger.jobs import STAGES
from memline.settings import Settings, load_settings
from ops.stack.compose import Service, interpolated, read_env_file, read_services, seconds, start_order
from ops.stack.secrets import DRAWN, filled, write_env

ROOT = Path(__file__).parents[3]
FILE = ROOT / "docker-compose.yml"
TEXT = FILE.read_text(encoding="utf-8")
DOCUMENT: dict[str, Any] = yaml.safe_load(TEXT)
SERVICES: dict[str, Any] = DOCUMENT["services"]
EXAMPLE = (ROOT / ".env.example").read_text(encoding="utf-8")
ENV = dict(line.split("=", 1) for line in filled(EXAMPLE).splitlines() if line and not line.startswith("#"))
READ: dict[str, Service] = read_services(FILE, ENV)
OWN = {name: service for name, service in READ.items() if service.own}
WORKERS = {name: service for name, service in OWN.items() if service.command[0] == "worker"}
DOCKERFILE = (ROOT / "ops" / "docker" / "Dockerfile").read_text(encoding="utf-8")


def variable_of(name: str, field: Any) -> list[str]:
    return [*field.validation_alias.choices] if field.validation_alias else [f"MEMLINE_{name.upper()}"]


SETTINGS = {variable for name, field in Settings.model_fields.items() for variable in variable_of(name, field)}


def parsed(command: list[str]) -> dict[str, Any]:
    """The options of a memline command; a usage error where it has none of that name."""
    group = typer.main.get_command(app)
    context = group.make_context("memline", list(command), resilient_parsing=False)
    name, found, rest = group.resolve_command(context, [*context._protected_args, *context.args])  # type: ignore[attr-defined]
    return dict(found.make_context(name, rest, parent=context).params)


# against the specification


def test_it_follows_the_compose_specification() -> None:
    schema = json.loads((files("check_jsonschema") / "builtin_schemas/vendor/compose-spec.json").read_text(encoding="utf-8"))
    filled_in = interpolated({key: value for key, value in DOCUMENT.items() if not key.startswith("x-")}, ENV)
    jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker()).validate(filled_in)


def test_the_schema_knows_what_is_wrong() -> None:
    schema = json.loads((files("check_jsonschema") / "builtin_schemas/vendor/compose-spec.json").read_text(encoding="utf-8"))
    wrong = {"services": {"redis": {"image": "redis:7", "restarts": "always"}}}
    with pytest.raises(jsonschema.ValidationError, match="restarts"):
        jsonschema.Draft202012Validator(schema).validate(wrong)


def test_docker_itself_takes_it(tmp_path: Path) -> None:
    if shutil.which("docker") is None or subprocess.run(["docker", "compose", "version"], capture_output=True).returncode:
        pytest.skip("docker compose is not on this machine; the schema of its specification was asked")
    env = tmp_path / ".env"
    env.write_text("".join(f"{name}={value}\n" for name, value in ENV.items()))
    subprocess.run(["docker", "compose", "--env-file", env, "--file", FILE, "config", "--quiet"], check=True)


def test_durations_sizes_and_conditions_are_what_they_should_be() -> None:
    for name, service in SERVICES.items():
        check = service["healthcheck"]
        spans = [service.get("stop_grace_period", "10s"), *(check[key] for key in check if key in _SPANS)]
        assert all(seconds(span) > 0 for span in spans), name
        limits = service["deploy"]["resources"]["limits"]
        assert re.fullmatch(r"\d+[kmg]", limits["memory"]), name
        assert float(limits["cpus"]) > 0, name
        assert set(READ[name].depends_on.values()) <= {"service_healthy", "service_completed_successfully"}, name


_SPANS = ("interval", "timeout", "start_period", "start_interval")


# against the code


def test_every_setting_is_one_that_memline_has_and_takes() -> None:
    for name, service in OWN.items():
        given = {key for key in service.environment if key.startswith("MEMLINE_")}
        assert given <= SETTINGS, name
        fields = {key.removeprefix("MEMLINE_").lower(): value for key, value in service.environment.items() if value}
        load_settings(_env_file=None, **fields)


def test_every_command_is_one_of_memlines() -> None:
    for name, service in OWN.items():
        assert parsed(list(service.command)) is not None, name  # a wrong option raises, and says which


def test_health_checks_are_commands_of_memline_that_ask_for_the_services_own_role() -> None:
    for name, service in WORKERS.items():
        assert service.healthcheck[:2] == ["CMD", "memline"], name
        asked = parsed(list(service.healthcheck[2:]))
        role = "worker" if name.startswith("worker-") else name
        assert (str(asked["question"].value), str(asked["role"].value)) == ("live", role)


def test_every_stage_and_every_role_is_served_by_exactly_one_service() -> None:
    options = {name: parsed(list(service.command)) for name, service in WORKERS.items()}
    served = [stage for found in options.values() for stage in parse_stages(found["stages"])]
    assert sorted(served) == sorted(STAGES)
    for role, service in (("accept", "accept"), ("relay", "relay"), ("sweep", "beat")):
        assert [name for name, found in options.items() if found[role]] == [service]


def test_the_queues_have_the_pools_that_their_work_asks_for() -> None:
    options = {name: parsed(list(service.command)) for name, service in WORKERS.items()}
    assert options["worker-extract"]["pool"].value == "threads"
    assert options["worker-nlp"]["pool"].value == "prefork"
    slots = sum(options[name]["concurrency"] for name in ("worker-extract", "worker-nlp", "worker-io"))
    assert int(READ["accept"].environment["MEMLINE_IN_FLIGHT"]) >= options["worker-extract"]["concurrency"]
    assert slots >= int(READ["accept"].environment["MEMLINE_IN_FLIGHT"])


def test_the_ports_are_those_that_the_code_uses() -> None:
    for name, service in READ.items():
        words = [*service.command, *service.environment.values(), *service.healthcheck]
        for inside in service.ports:
            told = any(re.search(rf"(?<!\d){inside}(?!\d)", word) for word in words)
            assert told or (name, inside) in {("redis", 6379), ("postgres", 5432), ("weaviate", 50051)}, (name, inside)
    settings = READ["accept"].environment
    for key, host, port in (("REDIS_URL", "redis", 6379), ("LEDGER_URL", "postgres", 5432), ("WEAVIATE_URL", "weaviate", 8080)):
        assert f"{host}:{port}" in settings[f"MEMLINE_{key}"]
        assert port in READ[host].ports
    assert settings["MEMLINE_WEAVIATE_GRPC_URL"].endswith("weaviate:50051")
    scraped = (ROOT / "ops" / "prometheus" / "prometheus.yml").read_text(encoding="utf-8")
    assert "metrics:9464" in scraped
    assert f"port: {settings['MEMLINE_METRICS_PORT']}" in scraped
    for name in WORKERS:
        assert re.search(rf"\b{name}\b", scraped), f"{name} is not scraped"


def test_every_port_is_bound_to_this_machine_only() -> None:
    for name, service in SERVICES.items():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", [])), name


def test_every_variable_is_in_the_example_and_the_other_way_round() -> None:
    used = set(re.findall(r"\$\{(\w+)", TEXT))
    assert used == set(read_env_file(ROOT / ".env.example"))
    for name in DRAWN:
        assert f"${{{name}:?" in TEXT, f"compose starts without {name}"
    given = {name: value for name, value in read_env_file(ROOT / ".env.example").items() if value}
    defaults = dict(re.findall(r"\$\{(\w+):-([^}]*)\}", TEXT))
    assert given == {name: value for name, value in defaults.items() if value}  # the example says what holds without it


def test_it_does_not_start_without_the_secrets() -> None:
    from ops.stack.compose import MissingVariable

    for name in DRAWN:
        with pytest.raises(MissingVariable, match=name):
            read_services(FILE, {key: value for key, value in ENV.items() if key != name})


def test_every_file_that_is_mounted_is_there() -> None:
    for name, service in READ.items():
        for source in service.volumes.values():
            if source.startswith("./"):
                assert (ROOT / source).is_dir(), (name, source)
                assert any(path.is_file() for path in (ROOT / source).rglob("*")), (name, source)
            else:
                assert source in DOCUMENT["volumes"], (name, source)
    assert set(DOCUMENT["volumes"]) == {s for service in READ.values() for s in service.volumes.values() if not s.startswith("./")}


def test_what_a_service_waits_for_exists_can_be_told_and_does_not_wait_for_it() -> None:
    for name, service in READ.items():
        for other, condition in service.depends_on.items():
            if condition == "service_completed_successfully":
                assert READ[other].once, (name, other)
            else:
                assert READ[other].healthcheck, (name, other)
    waves = start_order(READ)
    place = {name: number for number, wave in enumerate(waves) for name in wave}
    assert all(place[name] > place["migrate"] > place["postgres"] for name in WORKERS)


def test_services_that_wait_for_each_other_are_found() -> None:
    path = read_services(FILE, ENV)
    from dataclasses import replace

    circle = path | {"redis": replace(path["redis"], depends_on={"accept": "service_healthy"})}
    with pytest.raises(ValueError, match="accept"):
        start_order(circle)


def test_every_service_is_limited_checked_restarted_and_pinned() -> None:
    for name, service in SERVICES.items():
        limits = service["deploy"]["resources"]["limits"]
        assert limits["cpus"] and limits["memory"], name
        assert service["restart"] in ("unless-stopped", "no"), name
        assert READ[name].once or service["healthcheck"]["test"], name
        _, _, tag = service["image"].partition(":")
        assert tag and tag != "latest" and any(character.isdigit() for character in tag), name
        assert service["security_opt"] == ["no-new-privileges:true"], name
    assert DOCUMENT["x-memline"]["image"] == f"memline:{__version__}"


def test_our_processes_run_as_nobody_much_and_have_time_to_end() -> None:
    for name in OWN:
        service = SERVICES[name]
        assert (service["read_only"], service["cap_drop"], service["user"]) == (True, ["ALL"], "10001:10001"), name
    within = float(READ["accept"].environment["MEMLINE_STOP_WITHIN"])
    assert all(service.grace > within for service in WORKERS.values())


def test_redis_keeps_what_it_acknowledged_and_evicts_nothing() -> None:
    command = list(READ["redis"].command)
    told = dict(zip(command[1::2], command[2::2], strict=True))
    assert (told["--appendonly"], told["--maxmemory-policy"], told["--requirepass"]) == ("yes", "noeviction", ENV["REDIS_PASSWORD"])


# the image


def test_the_image_is_built_from_what_is_there_and_nothing_else() -> None:
    sources = [word for line in re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE, flags=re.MULTILINE) for word in line.split()[:-1]]
    allowed = {line[1:] for line in (ROOT / "ops/docker/Dockerfile.dockerignore").read_text().splitlines() if line.startswith("!")}
    assert set(sources) == allowed
    assert all((ROOT / source).exists() for source in sources)
    build = DOCUMENT["x-memline"]["build"]
    assert (ROOT / build["context"]).resolve() == ROOT
    assert (ROOT / build["dockerfile"]).is_file()


def test_the_image_is_pinned_and_ends_as_a_user_without_rights() -> None:
    assert re.search(r"^ARG PYTHON=\d+\.\d+\.\d+-slim-\w+$", DOCKERFILE, flags=re.MULTILINE)
    stages = re.split(r"^FROM ", DOCKERFILE, flags=re.MULTILINE)[1:]
    assert len(stages) == 2 and all(stage.startswith("python:${PYTHON}") for stage in stages)
    assert re.findall(r"^USER (.*)$", stages[-1], flags=re.MULTILINE) == [DOCUMENT["x-memline"]["user"]]
    assert "PIP_NO_CACHE_DIR=1" in stages[0]
    assert 'ENTRYPOINT ["memline"]' in stages[-1]


def test_the_image_holds_the_extras_that_the_services_need() -> None:
    (extras,) = re.findall(r"\$\{wheel\}\[([\w,]+)\]", DOCKERFILE)
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert set(extras.split(",")) == set(declared) - {"test", "check", "dev"}


def test_what_is_copied_into_the_image_is_enough_to_build_the_wheel(tmp_path: Path) -> None:
    for source in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / source, tmp_path)
    shutil.copytree(ROOT / "memline", tmp_path / "memline", ignore=shutil.ignore_patterns("__pycache__"))
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path / "wheel", tmp_path]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = (tmp_path / "wheel").glob("memline-*.whl")  # the name by which the image finds it
    with zipfile.ZipFile(wheel) as archive:
        assert "memline/cli/app.py" in archive.namelist()


# .env


def test_secrets_are_drawn_once_and_are_their_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    assert write_env(path)
    first = read_env_file(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert len({first[name] for name in DRAWN}) == len(DRAWN)
    assert all(re.fullmatch(r"[0-9a-f]{48}", first[name]) for name in DRAWN)  # they stand in URLs
    assert not write_env(path)
    assert read_env_file(path) == first


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${A}", "1"),
        ("$A-$$A", "1-$A"),
        ("${EMPTY:-x}", "x"),
        ("${EMPTY-x}", ""),
        ("${GONE:-}", ""),
        ("${GONE-a b}/${A}", "a b/1"),
        ("plain", "plain"),
    ],
)
def test_variables_are_read_as_compose_reads_them(text: str, value: str) -> None:
    assert interpolated([{"key": text}], {"A": "1", "EMPTY": ""}) == [{"key": value}]


@pytest.mark.parametrize(("text", "number"), [("40s", 40.0), ("1m30s", 90.0), ("500ms", 0.5), ("1h", 3600.0), ("1.5s", 1.5)])
def test_durations_are_read(text: str, number: float) -> None:
    assert seconds(text) == number


@pytest.mark.parametrize("text", ["", "40", "soon", "40 s"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no duration"):
        seconds(text)


@pytest.mark.parametrize("goal", ["up", "down"])
def test_without_docker_make_says_what_to_do_instead_and_writes_nothing(goal: str, tmp_path: Path) -> None:
    make = shutil.which("make")
    assert make is not None
    shutil.copy(ROOT / "Makefile", tmp_path)
    done = subprocess.run([make, goal], cwd=tmp_path, env={"PATH": str(tmp_path)}, capture_output=True, text=True)
    assert done.returncode == 2
    assert "docker is not on this machine. Without it: make stack" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["Makefile"]
