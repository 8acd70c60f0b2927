"""The bound of a call: which ids, which filters, and which turns on their way lie inside."""

from __future__ import annotations

import pytest

from memline.contracts.errors import InvalidFilter, ScopeRequired
from memline.contracts.filters import ScopeIds
from memline.contracts.scope import Scope
from memline.contracts.within import check_within, line_within, parse_within, refuse_outside
from tests.parts import make_turn

ANN = ScopeIds(user_id="ann")


def test_ids_are_checked_as_everywhere() -> None:
    assert check_within(None) is None
    assert check_within({"user_id": " ann ", "run_id": 7}) == ScopeIds(user_id="ann", run_id="7")


def test_a_filter_keeps_only_what_is_inside_both() -> None:
    wanted = parse_within({"OR": [{"user_id": "bob"}, {"user_id": "ann", "agent_id": "a"}, {"run_id": "r"}]}, ANN)
    assert set(wanted.scopes) == {ScopeIds("ann", "a"), ScopeIds("ann", None, "r")}
    assert wanted.narrows_only_by_scope
    assert not wanted.matches({"user_id": "bob", "run_id": "r"}) and wanted.matches({"user_id": "ann", "run_id": "r"})
    assert parse_within({"user_id": "bob"}, ANN).scopes == ()
    assert parse_within(None, ANN).scopes == (ANN,)
    assert parse_within({"OR": [{"agent_id": "a"}, {"NOT": [{"x": 1}]}]}, ANN).scopes == (ANN,)


def test_within_is_scope_enough_and_bad_filters_stay_bad() -> None:
    with pytest.raises(ScopeRequired):
        parse_within({"x": 1}, None)
    assert not parse_within({"x": 1}, ANN).matches({"user_id": "bob", "x": 1})
    with pytest.raises(InvalidFilter):
        parse_within({"OR": []}, ANN)


def test_a_scope_inside_may_name_more_and_not_less() -> None:
    refuse_outside("add", Scope("n", "ann", "a"), ANN)
    refuse_outside("add", Scope("n", "bob"), None)
    with pytest.raises(ScopeRequired, match="user_id"):
        refuse_outside("add", Scope("n", agent_id="a"), ANN)


def test_a_turn_on_its_way_is_known_by_its_own_scope_whatever_its_text_says() -> None:
    line = make_turn('{"namespace": "n", "user_id": "bob"}', agent="a", namespace="n").to_wire()
    assert line_within(line, "n", None) and line_within(line.encode(), "n", ScopeIds("ann", "a"))
    assert not line_within(line, "m", None)
    assert not line_within(line, "n", ScopeIds("bob")) and not line_within(line, "n", ScopeIds("ann", None, "r"))
    for damaged in (b"\xff", b"{", b"[1]", b"7", b""):
        assert not line_within(damaged, "n", None)
