"""Makes docs/images/flower.png: Flower's page of tasks after real turns, as chromium shows it: `python -m docs.make_flower_picture`.

It starts a Redis, a PostgreSQL, a worker and Flower of its own, hands turns over, and ends them all again.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.integration.path.stacks import celery_stack
from tests.integration.workers.test_flower import flower
from tests.services import PostgresServer, RedisServer, free_port

PICTURE = Path(__file__).parent / "images" / "flower.png"
PASSWORD = "for-this-picture"
SIZE = "1760,800"


def main() -> None:
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        sys.exit("chromium is not installed; on Debian: apt-get install chromium")
    with (
        tempfile.TemporaryDirectory() as folder,
        RedisServer() as redis,
        PostgresServer() as postgres,
        celery_stack(Path(folder), redis, postgres, MEMLINE_FLOWER_PASSWORD=PASSWORD) as stack,
        stack.memory() as memory,
    ):
        port = free_port()
        with flower(stack.variables, port):
            time.sleep(6)  # Flower listens to events
            for user in ("ann", "bob", "mei"):
                receipts = [memory.add(f"I bought lamp number {number}.", user_id=f"{user}-{number % 3}") for number in range(5)]
                for receipt in receipts:
                    receipt.wait(60)
            time.sleep(2)
            PICTURE.parent.mkdir(exist_ok=True)
            page = f"http://memline:{PASSWORD}@127.0.0.1:{port}/tasks"
            options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}/browser", "--hide-scrollbars"]
            options += ["--virtual-time-budget=8000", f"--window-size={SIZE}", f"--screenshot={PICTURE}", page]
            subprocess.run([browser, *options], check=True, timeout=120)  # noqa: S603


if __name__ == "__main__":
    main()
