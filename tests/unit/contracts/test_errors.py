"""The error tree: complete, drawn, and with a message for each."""

from __future__ import annotations

import copy
import inspect
import pickle
import re
from typing import Any

import pytest

from memline.contracts import errors
from memline.contracts.errors import (
    InvalidInput,
    MemlineError,
    MemoryNotFound,
    NotFound,
    NotSupportedYet,
    ProviderUnavailable,
    ReplyUnreadable,
    TurnFailed,
    UnknownOption,
    WaitTimeout,
)

CLASSES = {name: value for name, value in vars(errors).items() if inspect.isclass(value) and value.__module__ == errors.__name__}


def drawn() -> dict[str, str | None]:
    """Each class of the drawing in the module docstring, with the class it hangs on."""
    tree: dict[str, str | None] = {}
    above: list[str] = []
    for line in inspect.cleandoc(errors.__doc__ or "").splitlines():
        found = re.match(r"(?P<branch>[│ ]*(?:├── |└── )?)(?P<name>[A-Z]\w+)", line[4:] if line.startswith("    ") else "")
        if found is None:
            continue
        depth = len(found["branch"]) // 4
        tree[found["name"]] = above[depth - 1] if depth else None
        above[depth:] = [found["name"]]
    return tree


def make(name: str) -> MemlineError:
    error = MemoryNotFound("m-1") if name == "MemoryNotFound" else CLASSES[name]()
    assert isinstance(error, MemlineError)
    return error


def test_all_names_every_class_and_nothing_else() -> None:
    assert sorted(CLASSES) == errors.__all__


def test_the_drawing_is_the_tree() -> None:
    assert drawn() == {name: None if cls is MemlineError else cls.__bases__[0].__name__ for name, cls in CLASSES.items()}


def test_the_drawing_names_each_builtin_that_a_class_also_is() -> None:
    for name, cls in CLASSES.items():
        for base in cls.__bases__[1:]:
            assert re.search(rf"\b{name} \(also {base.__name__}\b", errors.__doc__ or ""), (name, base)


@pytest.mark.parametrize("name", errors.__all__)
def test_every_class_is_a_memline_error(name: str) -> None:
    assert issubclass(CLASSES[name], MemlineError)


@pytest.mark.parametrize("name", [name for name in errors.__all__ if name != "MemoryNotFound"])
def test_the_docstring_is_the_default_message(name: str) -> None:
    doc = CLASSES[name].__dict__.get("__doc__")
    assert doc
    assert str(make(name)) == inspect.cleandoc(doc)
    error: type[Any] = CLASSES[name]
    assert str(error("what happened")) == "what happened"


@pytest.mark.parametrize("name", errors.__all__)
def test_an_error_survives_a_copy_and_a_pickle(name: str) -> None:
    error = make(name)
    for twin in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert type(twin) is type(error)
        assert str(twin) == str(error)
        assert vars(twin) == vars(error)


def test_what_an_error_holds_survives_a_pickle() -> None:
    twin = pickle.loads(pickle.dumps(WaitTimeout("late", receipt={"id": "t"}, committed=True)))
    assert (str(twin), twin.receipt, twin.committed) == ("late", {"id": "t"}, True)


def test_errors_are_the_builtins_that_mem0_users_catch() -> None:
    assert issubclass(InvalidInput, ValueError)
    assert issubclass(NotFound, ValueError)
    assert issubclass(UnknownOption, TypeError)
    assert issubclass(WaitTimeout, TimeoutError)
    assert issubclass(NotSupportedYet, NotImplementedError)


def test_a_memory_that_is_not_found_is_named() -> None:
    error = MemoryNotFound("m-1")
    assert error.memory_id == "m-1"
    assert "m-1" in str(error)
    assert "get_all" in str(error)


def test_errors_hold_what_the_caller_needs() -> None:
    assert TurnFailed(receipt="r").receipt == "r"
    assert ProviderUnavailable(retry_after=2.5).retry_after == 2.5
    unreadable = ReplyUnreadable(reply="secret reply")
    assert unreadable.reply == "secret reply"
    assert "secret" not in str(unreadable)
    assert not WaitTimeout().committed
