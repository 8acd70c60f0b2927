"""What chat servers are known to take, kept in the ledger, so that one worker finds it out for all (`language.chat.forms.FormStore`)."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta

import sqlalchemy as sa

from memline.contracts.clock import Clock
from memline.ledger.schema import ledger_meta
from memline.ledger.session import Ledger, insert

__all__ = ["GOOD_FOR", "LedgerForms"]

#: After so long a server is asked again what it takes: it may have been upgraded.
GOOD_FOR = timedelta(days=7)


class LedgerForms:
    """Keeps a form by name under the key of a server and model. *ledger* is opened when it is first needed."""

    def __init__(self, ledger: Callable[[], Ledger], clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock

    def load(self, key: str) -> str | None:
        """The form that was kept in the last `GOOD_FOR`. Raises what the ledger raises."""
        with self._ledger().read() as connection:
            value = connection.execute(sa.select(ledger_meta.c.value).where(ledger_meta.c.key == _key(key))).scalar_one_or_none()
        if value is None:
            return None
        kept = json.loads(value)
        fresh = self._clock.now() - datetime.fromisoformat(kept["at"]) < GOOD_FOR
        return str(kept["form"]) if fresh else None

    def keep(self, key: str, form: str) -> None:
        """Keeps *form*, from now on. Raises what the ledger raises."""
        value = json.dumps({"form": form, "at": self._clock.now().isoformat()})
        with self._ledger().write() as tx:
            statement = insert(tx, ledger_meta).values(key=_key(key), value=value)
            tx.execute(statement.on_conflict_do_update(index_elements=["key"], set_={"value": value}))


def _key(key: str) -> str:
    return f"chat_form:{key}"
