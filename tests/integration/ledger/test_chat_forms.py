"""What a chat server takes, as the ledger keeps it."""

from __future__ import annotations

from pathlib import Path

from memline.cli.simulator import Simulator
from memline.compose import House
from memline.contracts.turn import Message
from memline.ledger.chat_forms import GOOD_FOR, LedgerForms
from memline.ledger.session import Ledger
from memline.pipeline.extractors.port import Request
from memline.settings import load_settings
from tests.parts import START, HandClock


def test_a_form_is_kept_for_a_week_under_its_server(ledger: Ledger) -> None:
    clock = HandClock()
    forms = LedgerForms(lambda: ledger, clock)
    assert forms.load("a") is None
    forms.keep("a", "TEXT")
    forms.keep("a", "OBJECT")
    assert (forms.load("a"), forms.load("b")) == ("OBJECT", None)
    clock.advance(GOOD_FOR.total_seconds())
    assert forms.load("a") is None


def test_what_one_process_found_out_the_next_one_knows(tmp_path: Path) -> None:
    with Simulator(structured=False) as server:
        settings = load_settings(home=tmp_path, openai_api_key="test", openai_base_url=server.url)
        for calls in (3, 1):  # schema, object, text; then text at once
            before = server.counts.get("/v1/chat/completions", 0)
            house = House(settings)
            try:
                request = Request((Message("user", "I like tea"),), START)
                assert house.extractor.read(house.extractor.ask(request), request)
            finally:
                house.close(0)
            assert server.counts["/v1/chat/completions"] - before == calls
