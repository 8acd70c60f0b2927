"""`python -m tests.check_services`: says which Redis and which PostgreSQL the tests start; exits with 1 where one is missing."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from tests.services import postgres_binaries, redis_binary


def main() -> int:
    missing = 0
    for name, find in (("redis", lambda: Path(redis_binary())), ("postgres", lambda: postgres_binaries() / "postgres")):
        try:
            binary = find()
        except RuntimeError as error:
            print(error, file=sys.stderr)
            missing += 1
            continue
        version = subprocess.run([binary, "--version"], check=True, capture_output=True, text=True).stdout.strip()
        print(f"{name}: {version}")
    if find_spec("psycopg") is None:
        print("A PostgreSQL ledger needs psycopg (pip install 'memline[postgres]').", file=sys.stderr)
        missing += 1
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
