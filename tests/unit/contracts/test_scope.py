"""Scope ids and the keys made from them."""

from __future__ import annotations

import enum
from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memline.contracts.errors import InvalidInput, InvalidScopeId, ScopeRequired
from memline.contracts.scope import ID_KEYS, MAX_ID_LENGTH, Owner, Scope, Subject, check_namespace, check_scope_id

#: Ids that a careless key would mix up: delimiters, digits, the words of the keys themselves.
tricky = st.text(st.sampled_from("a1&=%:|-/_\\,;\x01None"), min_size=1, max_size=4).filter(str.isprintable)
ids = st.one_of(tricky, st.sampled_from(["user", "None", "1:a", "-", "a&agent_id=b", "2:ab", "a%3Ab", "ann.lee", "Ann_Lee", "ann"]))
maybe = st.none() | ids
scopes = st.builds(Scope, ids, maybe, maybe, maybe).filter(lambda scope: bool(scope.ids()))


@settings(max_examples=250)
@given(scopes, scopes)
def test_two_scopes_share_a_lane_only_if_they_are_one(one: Scope, other: Scope) -> None:
    assert (one.lane == other.lane) == (one == other)


@settings(max_examples=250)
@given(scopes, scopes)
def test_two_scopes_share_an_owner_key_only_if_they_have_one_owner(one: Scope, other: Scope) -> None:
    assert (one.owner.key == other.owner.key) == (one.owner == other.owner)


@settings(max_examples=250)
@given(scopes, scopes)
def test_two_subjects_share_a_key_only_if_they_are_one(one: Scope, other: Scope) -> None:
    for subject in one.subjects:
        for another in other.subjects:
            assert (subject.key == another.key) == (subject == another)


@given(st.lists(scopes, min_size=2, max_size=40, unique=True))
def test_keys_of_many_scopes_are_all_different(many: list[Scope]) -> None:
    lanes = {scope.lane for scope in many}
    assert len(lanes) == len(many)
    assert lanes.isdisjoint({scope.owner.key for scope in many} | {subject.key for scope in many for subject in scope.subjects})


@given(ids, ids)
def test_an_id_moved_to_another_place_makes_another_scope(namespace: str, value: str) -> None:
    lanes = {
        Scope(namespace, user_id=value).lane,
        Scope(namespace, agent_id=value).lane,
        Scope(namespace, run_id=value).lane,
        Scope(namespace, value, value).lane,
        Scope(namespace, value, None, value).lane,
        Scope(namespace, None, value, value).lane,
        Scope(namespace, value, value, value).lane,
    }
    assert len(lanes) == 7


@given(scopes)
def test_a_key_is_32_hex_digits(scope: Scope) -> None:
    for key in (scope.lane, scope.owner.key, *(subject.key for subject in scope.subjects)):
        assert len(key) == 32
        assert int(key, 16) >= 0


def test_keys_are_the_same_in_every_process_and_version() -> None:
    scope = Scope("shop", "ann", None, "s1")
    assert scope.lane == "da3b70a3de5d636e4cd405586b5653f6"
    assert scope.owner.key == "d3bb0d687cbdb791aa7a23046c3b40a5"
    assert Subject("shop", "user", "ann").key == "391a88417205f23fd828774c60c43093"


def test_an_owner_is_the_scope_without_its_run_unless_there_is_only_a_run() -> None:
    assert Scope("n", "u", "a", "r").owner == Owner("n", "u", "a", None) == Scope("n", "u", "a").owner
    assert Scope("n", None, "a", "r").owner == Owner("n", None, "a", None)
    assert Scope("n", None, None, "r").owner == Owner("n", None, None, "r")


def test_the_subjects_of_a_scope_are_its_namespace_and_each_id() -> None:
    assert Scope("n", "u", None, "r").subjects == (Subject("n", "namespace", "n"), Subject("n", "user", "u"), Subject("n", "run", "r"))


def test_only_ids_that_are_set_are_named() -> None:
    assert Scope("n", "u", None, "r").ids() == {"user_id": "u", "run_id": "r"}
    assert list(Scope("n", "u", "a", "r").ids()) == list(ID_KEYS)


class Colour(str, enum.Enum):  # noqa: UP042 - str() of one is its name, which a StrEnum's is not
    RED = "red"


@pytest.mark.parametrize(
    ("given_id", "expected"), [("ann", "ann"), ("  ann ", "ann"), (7, "7"), (-7, "-7"), ("安", "安"), (Colour.RED, "red")]
)
def test_a_good_id_is_kept_as_text(given_id: object, expected: str) -> None:
    checked = check_scope_id("user_id", given_id)
    assert checked == expected
    assert type(checked) is str


def test_the_longest_id_is_kept_and_one_more_is_refused() -> None:
    assert check_scope_id("user_id", "x" * MAX_ID_LENGTH) == "x" * MAX_ID_LENGTH
    with pytest.raises(InvalidScopeId, match="257 characters"):
        check_scope_id("user_id", "x" * (MAX_ID_LENGTH + 1))


BAD_IDS = [
    pytest.param("", "empty or whitespace-only.*give the id of one user", id="empty"),
    pytest.param(" \t\n", "empty or whitespace-only", id="blank"),
    pytest.param("*", "wildcards are not ids. Name one user", id="star"),
    pytest.param("ann*", "wildcards", id="star-inside"),
    pytest.param("lee ann", "whitespace", id="space-inside"),
    pytest.param("lee\u00a0ann", "whitespace", id="no-break-space"),
    pytest.param("lee\u3000ann", "whitespace", id="ideographic-space"),
    pytest.param("a\x00b", "control characters", id="nul"),
    pytest.param("a\x07", "control characters", id="bell"),
    pytest.param("a\u200b", "control characters", id="zero-width-space"),
    pytest.param("\ud800", "lone surrogates", id="surrogate"),
    pytest.param("x" * 257, "257 characters", id="too-long"),
    pytest.param(10**300, "bits|characters", id="long-number"),
    pytest.param(10**5000, "bits", id="number-python-does-not-write-out"),
    pytest.param(True, "must be a string, not bool", id="bool"),
    pytest.param(1.0, "must be a string, not float", id="float"),
    pytest.param(b"ann", "must be a string, not bytes", id="bytes"),
    pytest.param(None, "must be a string, not NoneType", id="none"),
    pytest.param(["ann"], "must be a string, not list", id="list"),
    pytest.param({"in": ["ann"]}, "must be a string, not dict", id="dict"),
    pytest.param(date(2024, 5, 1), "must be a string, not date", id="date"),
]


@pytest.mark.parametrize(("value", "message"), BAD_IDS)
def test_a_bad_id_is_refused(value: object, message: str) -> None:
    with pytest.raises(InvalidScopeId, match=message) as caught:
        check_scope_id("user_id", value)
    assert "user_id" in str(caught.value)


@pytest.mark.parametrize("key", ID_KEYS)
@pytest.mark.parametrize(("value", "message"), [case for case in BAD_IDS if case.id != "none"])
def test_a_bad_id_is_refused_beside_good_ones(key: str, value: object, message: str) -> None:
    good = {name: "x" for name in ID_KEYS if name != key}
    with pytest.raises(InvalidScopeId, match=rf"\b{key}\b"):
        Scope.of("n", **{**good, key: value})


@pytest.mark.parametrize(("value", "message"), [case for case in BAD_IDS if case.id != "none"])
def test_a_bad_namespace_is_refused_by_its_name(value: object, message: str) -> None:
    with pytest.raises(InvalidScopeId, match="namespace") as caught:
        Scope.of(value, user_id="ann")
    assert "namesp " not in str(caught.value)
    assert "namesp," not in str(caught.value)


def test_a_wildcard_as_namespace_says_to_name_one_namespace() -> None:
    with pytest.raises(InvalidScopeId, match="Name one namespace"):
        check_namespace("*")


def test_an_error_never_repeats_the_id() -> None:
    with pytest.raises(InvalidScopeId) as caught:
        check_scope_id("user_id", "secret name")
    assert "secret" not in str(caught.value)


def test_a_scope_without_ids_is_refused() -> None:
    for ids_given in ({}, {"user_id": None}, dict.fromkeys(ID_KEYS)):
        with pytest.raises(ScopeRequired) as caught:
            Scope.of("n", **ids_given)
        assert isinstance(caught.value, InvalidInput)


def test_a_checked_scope_holds_trimmed_text() -> None:
    assert Scope.of(" n ", user_id=7, run_id=" r ") == Scope("n", "7", None, "r")
