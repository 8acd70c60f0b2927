"""The write policy on one text: what is masked stays readable, masking twice is masking once, and no text makes it slow."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memline.contracts.policy import Kind
from memline.producer.policy.cards import is_card
from memline.producer.policy.masking import find, masked
from memline.producer.policy.personal import is_iban
from tests.policy_lists.made import card, join, pem, url64
from tests.policy_lists.secrets_first import SECRETS

ALL = frozenset(Kind)


def screened(text: str, *kinds: Kind) -> str:
    return masked(text, find(text, kinds or ALL))


def test_a_masked_sentence_can_still_be_read() -> None:
    key = join("sk", "-proj-", url64("m1", 60))
    said = f"My password is hunter2!, my key {key} and my card {card('4', 16, 'm2', 4, 4, 4, 4)} are for Kim."
    assert screened(said) == "My password is [masked: password], my key [masked: api key] and my card [masked: card number] are for Kim."


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            "I use dragon99! as my password\nI changed my password to N3wStart!",
            "I use [masked: password] as my password\nI changed my password to [masked: password]",
        ),
        ("the key: b89e5c89b6ef13e83cafad15b9bc592dX9y8Z7", "the key: [masked: api key]"),
        (
            f"the token of the gate, which we keep for Kim and Lee: see {url64('m7', 100)}!",
            "the token of the gate, which we keep for Kim and Lee: see [masked: api key]!",
        ),
    ],
)
def test_a_secret_goes_from_its_first_character_to_its_last(said: str, told: str) -> None:
    assert screened(said, Kind.PASSWORD, Kind.API_KEY) == told


def test_an_address_keeps_everything_but_its_password() -> None:
    assert screened("postgresql://app:s3cret@db.example.com:5432/shop?sslmode=require", Kind.PASSWORD) == (
        "postgresql://app:[masked: password]@db.example.com:5432/shop?sslmode=require"
    )


def test_a_private_key_goes_as_a_whole_and_what_stands_around_it_stays() -> None:
    assert screened(f"before\n{pem('RSA', 'm3', 30)}\nafter") == "before\n[masked: private key]\nafter"
    certificate = pem("", "m4").replace("PRIVATE KEY", "CERTIFICATE")
    assert screened(certificate, Kind.PRIVATE_KEY) == certificate


def test_kinds_that_nobody_asked_for_are_left() -> None:
    said = f"pay with {card('4', 16, 'm5', 4, 4, 4, 4)}, write to ann@example.com"
    assert screened(said, Kind.EMAIL) == said.replace("ann@example.com", "[masked: email]")


@pytest.mark.parametrize(
    ("kind", "said", "told"),
    [
        (Kind.EMAIL, "write to ann.lee+x@mail.example.co.uk.", "write to [masked: email]."),
        (Kind.EMAIL, "@ann at 5@noon, a@b", "@ann at 5@noon, a@b"),
        (Kind.PHONE, "call +49 30 1234567 or (415) 555-2671", "call [masked: phone number] or [masked: phone number]"),
        (Kind.PHONE, "电话13812345678。", "电话[masked: phone number]。"),
        (Kind.PHONE, "version 1.2.3, 2024-05-01, 192.168.178.42", "version 1.2.3, 2024-05-01, 192.168.178.42"),
        (Kind.IBAN, "to GB82 WEST 1234 5698 7654 32 please", "to [masked: iban] please"),
        (Kind.IBAN, "to DE89370400440532013000.", "to [masked: iban]."),
        (Kind.IBAN, "DE12 ABCD 3456 is an article, GB82 WEST 1234 5698 7654 33 a slip", None),
        (Kind.SSN, "her SSN is 536-22-8726", "her SSN is [masked: social security number]"),
        (Kind.SSN, "000-12-3456 and 123-00-4567 are none", None),
    ],
)
def test_what_is_personal_is_masked_where_it_is_asked_for(kind: Kind, said: str, told: str | None) -> None:
    assert screened(said, kind) == (told or said)


def test_a_card_needs_its_check_digit_and_a_scheme() -> None:
    good = card("4", 16, "m6")
    assert is_card(good)
    wrong = good[:-1] + str((int(good[-1]) + 1) % 10)
    assert not is_card(wrong)
    assert not is_card("1" + good[1:])
    assert not is_card("4" * 16)
    assert screened(f"card {wrong}", Kind.CARD) == f"card {wrong}"


def test_an_iban_needs_its_check_digits_and_length() -> None:
    assert is_iban("GB82WEST12345698765432")
    assert not is_iban("GB82WEST1234569876543")
    assert not is_iban("XX82WEST12345698765432")


@given(st.lists(st.sampled_from([text.format(secret) for _, text, secret in SECRETS]), min_size=1, max_size=4), st.text(max_size=30))
def test_masking_twice_is_masking_once(said: list[str], between: str) -> None:
    once = screened(f"\n{between}\n".join(said))
    assert screened(once) == once


@given(st.text(max_size=200))
def test_any_text_can_be_looked_through(text: str) -> None:
    found = find(text, ALL)
    assert all(0 <= each.start < each.end <= len(text) for each in found)
    assert all(before.end <= after.start for before, after in pairwise(found))


@given(st.text(alphabet="İıſß密码password: is=key4", max_size=120))
def test_letters_that_change_their_length_shift_no_place(text: str) -> None:
    masked(text, find(text, ALL))


ADVERSARIAL = [
    "sk-", "eyJ.", "eyJa.", "password=", "password ", "password is ", "password for a ", "password?", "is my password ", "key=", "api key ",
    "token token1 ", "1 ", "4111 ", "12-", "://a:", "@", "a@b.", "BEGIN ", "-----BEGIN RSA PRIVATE KEY-----", "bearer ", "$2a$", "curl -u ",
    "user: a / ", "credentials: ", ":AA", "1:AA", "8Q~", "-us", "pin ", "密码", "PuTTY-User-Key-File-2:\n", "private key ", "-pass ", "İ",
    "GB82 WEST ", "+1 ", "M" * 24 + ".abcdef.", "AccountKey=", "aB3" * 11 + " token ",
    "b3BlbnNzaC1rZXktdjE", "\\", "\\n", "%20", "&quot;", "**a** ", "\u200b", "4111%20",
]  # fmt: skip


@pytest.mark.parametrize("unit", ADVERSARIAL)
def test_a_text_made_to_be_slow_is_looked_through(unit: str) -> None:
    """Where a pattern tried again what it had read, this would take minutes; the time itself is measured in docs/write-policy.md."""
    text = (unit * (200_000 // len(unit) + 1))[:200_000]
    found = find(text, ALL)
    assert all(before.end <= after.start for before, after in pairwise(found))
