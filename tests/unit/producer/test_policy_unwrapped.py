"""A secret that is wrapped: in JSON inside JSON, in an address, in bold type, between invisible characters. And what only looks so."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memline.contracts.policy import DEFAULT_ACTIONS, Action
from memline.producer.policy.masking import find, masked
from memline.producer.policy.unwrapped import unwrapped
from tests.policy_lists.made import alnum, card, join

MASKED = frozenset(kind for kind, action in DEFAULT_ACTIONS.items() if action is Action.MASK)
KEY = join("gh", "p_", alnum("u1", 36))
CARD = card("4", 16, "u2", 4, 4, 4, 4)
PLAIN = CARD.replace(" ", "")


def screened(text: str) -> str:
    return masked(text, find(text, MASKED))


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (json.dumps({"out": f"line\n{KEY}\nline"}), '{"out": "line\\n[masked: api key]\\nline"}'),
        (json.dumps({"out": f"pay\t{CARD}\n"}), '{"out": "pay\\t[masked: card number]\\n"}'),
        (json.dumps({"args": json.dumps({"password": "sunflower"})}), r'{"args": "{\"password\": \"[masked: password]\"}"}'),
        (
            json.dumps(json.dumps(json.dumps({"password": "hunter2!"}))),
            json.dumps(json.dumps(json.dumps({"password": "[masked: password]"}))),
        ),
        (f"q%3D{KEY}%26x", "q%3D[masked: api key]%26x"),
        (f"card={CARD.replace(' ', '%20')}", "card=[masked: card number]"),
        (f"card={CARD.replace(' ', '+')}&x=1", "card=[masked: card number]&x=1"),
        ("password%3Dhunter2%26user%3Dann", "password%3D[masked: password]%26user%3Dann"),
        ("{&quot;password&quot;: &quot;hunter2&quot;}", "{&quot;password&quot;: &quot;[masked: password]&quot;}"),
        ("My password is **hunter2**.", "My password is **[masked: password]**."),
        ("**Password:** hunter2", "**Password:** [masked: password]"),
        (f"card {CARD.replace(' ', chr(0x200B))} ok", "card [masked: card number] ok"),
        (f"card {chr(0x2060).join(PLAIN)} ok", "card [masked: card number] ok"),
        (f"key {KEY[:12]}\u00ad{KEY[12:]} ok", "key [masked: api key] ok"),
        (f"card {CARD.replace(' ', chr(0x2011))} ok", "card [masked: card number] ok"),
        ("卡号" + "".join(chr(0xFF10 + int(digit)) if digit.isdigit() else "\u3000" for digit in CARD), "卡号[masked: card number]"),
        # as it stands it is longer than as it was meant
        ("postgres://app:p%40ss9word@db/x", "postgres://app:[masked: password]@db/x"),
    ],
)
def test_a_wrapped_secret_is_masked_and_its_wrapping_stays(said: str, told: str) -> None:
    assert screened(said) == told


@pytest.mark.parametrize(
    "said",
    [
        r"The file is C:\new\temp\readme.txt, see \textbf{token} and \ref{key}.",
        "The password field takes **at least 12** characters, **always**.",
        "password: ****\nuser: ann",
        "2**3**4 = 4096, 100%25 of 5 & 6",
        "https://example.com/a%20b?token=&page=%C3%A9",
        "👩\u200d👩\u200d👧 said that the password is\u200b required",
        json.dumps({"note": 'he said "no"\nand left'}),
        "the mountain pass - 2224m, test pass: 80%, the pass is 1200 m high",
        "The pin code is 110001 for Delhi.",
        "login: github/bob_smith99",
        "The passphrase should be memorable and long.",
    ],
)
def test_what_is_wrapped_and_no_secret_is_left_alone(said: str) -> None:
    assert screened(said) == said


def test_a_text_without_wrapping_is_looked_at_once() -> None:
    assert unwrapped("I live in Porto. 100% sure * 2 & \\ more") is None


@given(st.text(alphabet='ab\\nt"u0041%26*&quot; ;\u200b', max_size=60))
def test_every_place_leads_back_to_where_it_stood(text: str) -> None:
    found = unwrapped(text)
    if found is None:
        return
    spans = [found.span(at, at + 1) for at in range(len(found.text))]
    assert all(0 <= start < end <= len(text) for start, end in spans)
    assert all(before[1] <= after[0] for before, after in pairwise(spans))
    assert all(text[start:end] == character for character, (start, end) in zip(found.text, spans, strict=True) if end - start == 1)
