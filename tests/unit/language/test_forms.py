"""What a server takes is found out once, by whoever asks it first."""

from __future__ import annotations

import pytest

from memline.contracts.errors import ServiceUnavailable
from memline.language.chat.forms import Forms, ReplyForm


class Store:
    def __init__(self, *, away: bool = False) -> None:
        self.kept: dict[str, str] = {}
        self.asked = 0
        self.away = away

    def load(self, key: str) -> str | None:
        self.asked += 1
        if self.away:
            raise ServiceUnavailable("The ledger does not answer.")
        return self.kept.get(key)

    def keep(self, key: str, form: str) -> None:
        if self.away:
            raise ServiceUnavailable("The ledger does not answer.")
        self.kept[key] = form


def test_the_strictest_form_comes_first_and_the_one_that_worked_after_it() -> None:
    forms = Forms()
    assert forms.of("http://localhost:1/v1", "m") is ReplyForm.SCHEMA
    forms.learned("http://localhost:1/v1", "m", ReplyForm.TEXT)
    assert forms.of("http://localhost:1/v1", "m") is ReplyForm.TEXT
    assert forms.of("http://localhost:1/v1", "other") is ReplyForm.SCHEMA
    assert forms.of("http://localhost:2/v1", "m") is ReplyForm.SCHEMA


def test_another_process_knows_it_and_asks_once() -> None:
    store = Store()
    Forms(store).learned("http://localhost:1/v1", "m", ReplyForm.OBJECT)
    other = Forms(store)
    assert [other.of("http://localhost:1/v1", "m") for _ in range(3)] == [ReplyForm.OBJECT] * 3
    assert store.asked == 1


def test_a_store_that_is_away_costs_a_try_and_no_call(caplog: pytest.LogCaptureFixture) -> None:
    forms = Forms(Store(away=True))
    assert forms.of(None, "m") is ReplyForm.SCHEMA
    forms.learned(None, "m", ReplyForm.OBJECT)
    assert forms.of(None, "m") is ReplyForm.OBJECT
    assert len(caplog.records) == 2


def test_what_a_newer_memline_kept_is_not_understood_and_found_out_anew() -> None:
    store = Store()
    Forms(store).learned(None, "m", ReplyForm.TEXT)
    store.kept = dict.fromkeys(store.kept, "GRAMMAR")
    assert Forms(store).of(None, "m") is ReplyForm.SCHEMA


def test_no_secret_of_the_url_is_kept() -> None:
    store = Store()
    Forms(store).learned("https://user:secret@example.com/secret-path/v1?key=secret", "m", ReplyForm.TEXT)
    (key,) = store.kept
    assert key.startswith("example.com ")
    assert "secret" not in key
