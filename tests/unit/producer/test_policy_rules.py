"""What MEMLINE_WRITE_POLICY says, and how it is refused."""

from __future__ import annotations

import pytest

from memline import Memory
from memline.contracts.errors import ConfigurationError
from memline.contracts.policy import DEFAULT_ACTIONS, Action, Kind
from memline.producer.policy import WritePolicy, read_policy


def test_without_a_setting_secrets_are_masked_and_persons_are_kept() -> None:
    actions = read_policy(None).actions("any")
    assert {kind for kind, action in actions.items() if action is Action.MASK} == {
        Kind.API_KEY,
        Kind.PASSWORD,
        Kind.PRIVATE_KEY,
        Kind.CARD,
    }
    assert actions[Kind.EMAIL] is Action.KEEP


@pytest.mark.parametrize("given", ["card=refuse, email = mask", '{"card": "refuse", "email": "mask"}', {"card": "refuse", "email": "mask"}])
def test_kinds_that_are_named_change_and_the_rest_stays(given: object) -> None:
    actions = read_policy(given).actions("any")
    assert actions == {**DEFAULT_ACTIONS, Kind.CARD: Action.REFUSE, Kind.EMAIL: Action.MASK}


def test_a_namespace_has_its_own_on_top_of_what_holds_for_all() -> None:
    policy = read_policy('{"*": {"card": "refuse"}, "clinic": {"email": "mask", "password": "keep"}}')
    assert policy.actions("shop")[Kind.CARD] is Action.REFUSE
    assert policy.actions("shop")[Kind.EMAIL] is Action.KEEP
    clinic = policy.actions("clinic")
    assert (clinic[Kind.CARD], clinic[Kind.EMAIL], clinic[Kind.PASSWORD]) == (Action.REFUSE, Action.MASK, Action.KEEP)


def test_a_policy_is_taken_as_it_is() -> None:
    policy = WritePolicy()
    assert read_policy(policy) is policy


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("card", "without '='"),
        ("{", "no JSON"),
        ("card=hide", "keep, mask or refuse"),
        ("cards=mask", "kind that is not known"),
        ('{"card": "mask", "clinic": {"card": "mask"}}', "beside namespaces"),
        ('{"a b": {"card": "mask"}}', "Invalid namespace"),
        ('{"clinic": {"card": 5}}', "keep, mask or refuse"),
        (["card"], "not list"),
    ],
)
def test_what_can_not_be_read_is_refused_with_what_to_do(given: object, says: str) -> None:
    with pytest.raises(ConfigurationError, match="MEMLINE_WRITE_POLICY") as raised:
        read_policy(given)
    assert says in str(raised.value)


def test_a_wrong_policy_is_refused_before_anything_is_opened(memline_home: object) -> None:
    with pytest.raises(ConfigurationError, match="kind that is not known"):
        Memory(write_policy={"nothing": "mask"})
