"""The write policy on a memory that an import brings: no field that takes text brings a secret in."""

from __future__ import annotations

from dataclasses import replace

import pytest

from memline.contracts.errors import PolicyRefused
from memline.contracts.policy import DEFAULT_ACTIONS, Action, Kind
from memline.contracts.portable import PortableEvent, PortableMemory
from memline.contracts.scope import Scope
from memline.producer.policy import Screen
from memline.producer.policy.portable import screened
from tests.parts import START
from tests.policy_lists.made import alnum, join

KEY = join("gh", "p_", alnum("i1", 36))
MASKED = "[masked: api key]"
PLAIN = PortableMemory("m", Scope.of("default", "ann"), "ann lives in Porto", "live", START, START, START, START, vector=b"1234")


def test_every_field_that_takes_text_is_masked_and_counted() -> None:
    changes = {"metadata": {KEY: {"old": KEY, "new": 1}, "password": {"old": "sunflower", "new": None}}, "expires": {"old": None}}
    event = PortableEvent(1, "ADD", START, old_text=KEY, new_text=f"is {KEY}", reason=KEY, actor_id=KEY, changes=changes)
    screen = Screen(DEFAULT_ACTIONS)
    told = screened(screen, replace(PLAIN, text=f"is {KEY}", metadata={"a": KEY}, slot=KEY, actor_id=KEY, history=(event,)))
    assert KEY not in repr(told) and "sunflower" not in repr(told)
    assert (told.text, told.metadata, told.slot, told.actor_id, told.vector) == (f"is {MASKED}", {"a": MASKED}, MASKED, MASKED, None)
    assert told.history is not None
    assert told.history[0].changes == {
        "metadata": {MASKED: {"old": MASKED, "new": 1}, "password": {"old": "[masked: password]", "new": None}},
        "expires": {"old": None},
    }
    assert screen.hits[Kind.PASSWORD] == 1


def test_what_holds_no_secret_stays_to_the_letter() -> None:
    event = PortableEvent(1, "ADD", START, new_text=PLAIN.text, changes={"metadata": {"a": {"old": 1, "new": "x"}}})
    memory = replace(PLAIN, metadata={"n": 12, "t": "tea"}, slot="home", history=(event,))
    assert screened(Screen(DEFAULT_ACTIONS), memory) == memory


def test_a_refusal_names_the_place_in_the_history() -> None:
    event = PortableEvent(1, "ADD", START, reason=f"had {KEY}")
    with pytest.raises(PolicyRefused) as raised:
        screened(Screen({**DEFAULT_ACTIONS, Kind.API_KEY: Action.REFUSE}), replace(PLAIN, history=(event,)))
    assert raised.value.path == "history[0].reason"
    assert KEY not in str(raised.value)
