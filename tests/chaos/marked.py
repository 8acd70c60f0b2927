"""An extractor that is told by files what to do with a marked text: whatever a user says is a fact, unless it is poison or slow.

The folder `MEMLINE_TEST_MARKS` holds the marks. While `raise` is there, a text with POISON-RAISE breaks the extractor; while `kill` is
there, one with POISON-KILL kills the process; while `slow` is there, one with SLOW waits; while `busy` is there, the provider is, for BUSY.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path

from memline.contracts.errors import ProviderUnavailable
from memline.contracts.fact import Fact
from memline.pipeline.extractors.port import Request

__all__ = ["MarkedExtractor", "PaidMarkedExtractor"]


class MarkedExtractor:
    """An `Extractor` of this process."""

    name, paid, wants_context = "marked", False, False

    def __init__(self) -> None:
        self._marks = Path(os.environ["MEMLINE_TEST_MARKS"])

    def ask(self, request: Request) -> str:
        texts = [message.text for message in request.messages if message.role == "user"]
        for text in texts:
            self._obey(text)
        return json.dumps(texts)

    def read(self, reply: str, request: Request) -> Sequence[Fact]:
        return [Fact(text) for text in json.loads(reply)]

    def _obey(self, text: str) -> None:
        if "POISON-RAISE" in text and (self._marks / "raise").exists():
            raise RuntimeError("a secret of the text")
        if "POISON-KILL" in text and (self._marks / "kill").exists():
            os.kill(os.getpid(), signal.SIGKILL)
        if "BUSY" in text and (self._marks / "busy").exists():
            raise ProviderUnavailable("The provider is busy (test).", retry_after=1)
        while "SLOW" in text and (self._marks / "slow").exists():
            time.sleep(0.02)


class PaidMarkedExtractor(MarkedExtractor):
    """The same as a model somewhere else: it is asked for many turns at a time."""

    paid = True
