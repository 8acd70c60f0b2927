"""How much the write policy catches and how much it takes for a secret, on lists of texts (`tests/policy_lists`)."""

from __future__ import annotations

import pytest

from memline.contracts.policy import DEFAULT_ACTIONS, Action, Kind
from memline.producer.policy.masking import find, masked
from tests.policy_lists import (
    harmless_first,
    harmless_held_out,
    harmless_second,
    harmless_third,
    secrets_first,
    secrets_held_out,
    secrets_second,
    secrets_third,
)

MASKED = frozenset(kind for kind, action in DEFAULT_ACTIONS.items() if action is Action.MASK)
SECRETS = {
    "first": secrets_first.SECRETS,
    "second": secrets_second.SECRETS,
    "third": secrets_third.SECRETS,
    "held out": secrets_held_out.SECRETS,
}
HARMLESS = {
    "first": harmless_first.HARMLESS,
    "second": harmless_second.HARMLESS,
    "third": harmless_third.HARMLESS,
    "held out": harmless_held_out.HARMLESS,
}
#: Share of secrets that must be caught: what was reached, with a little room for nothing but rounding.
CAUGHT = {"first": 0.95, "second": 0.95, "third": 0.95, "held out": 0.94}


def is_gone(secret: str, text: str) -> bool:
    """No 12 characters in a row of the secret (or all of a shorter one) are left."""
    return not any(secret[start : start + 12] in text for start in range(max(1, len(secret) - 11)))


def screened(text: str) -> str:
    return masked(text, find(text, MASKED))


def test_the_first_list_has_150_secrets_and_150_look_alikes() -> None:
    assert len({text.format(secret) for _, text, secret in SECRETS["first"]}) == 150
    assert len(set(HARMLESS["first"])) == 150
    assert {kind for kind, _, _ in SECRETS["first"]} == {kind.value for kind in MASKED}


@pytest.mark.parametrize("name", SECRETS)
def test_secrets_are_caught(name: str) -> None:
    missed = [text for _, text, secret in SECRETS[name] if not is_gone(secret, screened(text.format(secret)))]
    assert len(missed) <= (1 - CAUGHT[name]) * len(SECRETS[name]) + 1e-9, missed


@pytest.mark.parametrize("name", HARMLESS)
def test_what_only_looks_like_a_secret_is_left_alone(name: str) -> None:
    taken = [text for text in HARMLESS[name] if find(text, MASKED)]
    assert len(taken) <= 0.03 * len(HARMLESS[name]), taken


def test_the_placeholder_says_what_kind_it_was() -> None:
    for kind, text, secret in SECRETS["first"]:
        told = screened(text.format(secret))
        if is_gone(secret, told):
            assert f"[masked: {Kind(kind).label}]" in told, text
