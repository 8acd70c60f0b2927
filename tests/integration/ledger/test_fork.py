"""A process forks that has a SQLite ledger open: beside a transaction of another thread, and with an idle connection."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

#: The thread ends its transaction only when the fork has begun, and some time after that.
PROGRAM = """
import os, sys, threading, time
import sqlalchemy as sa
from memline.ledger.session import Ledger

ledger = Ledger("sqlite:///" + sys.argv[1])
ledger.make_file()
with ledger.write() as tx:
    tx.execute(sa.text("CREATE TABLE seen (who TEXT)"))
forking, inside, ended = threading.Event(), threading.Event(), threading.Event()
os.register_at_fork(before=forking.set)

def work():
    with getattr(ledger, sys.argv[2])() as tx:
        tx.execute(sa.text("INSERT INTO seen VALUES ('parent')" if sys.argv[2] == "write" else "SELECT * FROM seen"))
        inside.set()
        forking.wait(300)
        time.sleep(0.5)
        ended.set()

thread = threading.Thread(target=work)
thread.start()
inside.wait(300)
child = os.fork()
if child == 0:
    if not ended.is_set():
        os._exit(3)
    with ledger.write() as tx:
        tx.execute(sa.text("INSERT INTO seen VALUES ('child')"))
    os._exit(0)
thread.join(300)
_, status = os.waitpid(child, 0)
with ledger.read() as connection:
    print(*sorted(connection.execute(sa.text("SELECT who FROM seen")).scalars()))
ledger.close()
sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.parametrize(("kind", "seen"), [("write", "child parent"), ("read", "child")])
def test_a_child_that_is_forked_beside_a_transaction_can_write(tmp_path: Path, kind: str, seen: str) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(tmp_path / "ledger.db"), kind], capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stdout.strip()) == (0, seen), done.stderr


#: The parent has an idle connection at the fork, and closes the ledger as the last one that it knows of, between two writes of its child.
IDLE = """
import os, sys
import sqlalchemy as sa
from memline.ledger.session import Ledger

ledger = Ledger("sqlite:///" + sys.argv[1])
ledger.make_file()
with ledger.write() as tx:
    tx.execute(sa.text("CREATE TABLE seen (who TEXT)"))
(hear_child, tell_parent), (hear_parent, tell_child) = os.pipe(), os.pipe()
child = os.fork()
if child == 0:
    with ledger.write() as tx:
        tx.execute(sa.text("INSERT INTO seen VALUES ('before')"))
    os.write(tell_parent, b".")
    os.read(hear_parent, 1)
    with ledger.write() as tx:
        tx.execute(sa.text("INSERT INTO seen VALUES ('after')"))
    os._exit(0)
with ledger.read() as connection:
    connection.execute(sa.text("SELECT who FROM seen")).all()
os.close(tell_parent)
os.read(hear_child, 1)
ledger.close()
os.write(tell_child, b".")
_, status = os.waitpid(child, 0)
with ledger.read() as connection:
    print(*connection.execute(sa.text("SELECT who FROM seen")).scalars())
ledger.close()
sys.exit(os.waitstatus_to_exitcode(status))
"""


def test_what_a_child_writes_after_its_parent_closed_the_file_is_kept(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", IDLE, str(tmp_path / "ledger.db")], capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stdout.strip()) == (0, "before after"), done.stderr
