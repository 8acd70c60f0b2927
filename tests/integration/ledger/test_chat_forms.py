"""What a chat server takes, as the ledger keeps it."""

from __future__ import annotations

from memline.ledger.chat_forms import GOOD_FOR, LedgerForms
from memline.ledger.session import Ledger
from tests.parts import HandClock


def test_a_form_is_kept_for_a_week_under_its_server(ledger: Ledger) -> None:
    clock = HandClock()
    forms = LedgerForms(lambda: ledger, clock)
    assert forms.load("a") is None
    forms.keep("a", "TEXT")
    forms.keep("a", "OBJECT")
    assert (forms.load("a"), forms.load("b")) == ("OBJECT", None)
    clock.advance(GOOD_FOR.total_seconds())
    assert forms.load("a") is None
