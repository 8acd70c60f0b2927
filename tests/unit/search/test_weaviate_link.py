"""What answers where a Weaviate should, and is none."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from memline.contracts.errors import ServiceUnavailable
from memline.search.index.port import Space
from memline.search.index.weaviate_link import Link
from memline.search.index.weaviate_place import place_of
from memline.search.index.weaviate_schema import ensure

pytest.importorskip("weaviate")


@pytest.mark.parametrize("answer", [{}, [], {"version": 5}, {"version": "1.40.0"}])
def test_another_service_at_its_place_is_a_weaviate_that_does_not_answer(answer: Any) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            raw = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        link = Link(place_of(f"http://127.0.0.1:{server.server_address[1]}", "50999"), timeout=120)
        with pytest.raises(ServiceUnavailable, match="MEMLINE_WEAVIATE_URL"):
            ensure(link, "Memline", Space("a", 8))
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
