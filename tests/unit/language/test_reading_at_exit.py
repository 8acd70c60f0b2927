"""An engine that drains while its process ends reads texts then: nothing that spaCy needs may be gone."""

from __future__ import annotations

import subprocess
import sys
import textwrap


def test_a_text_is_read_while_the_process_ends() -> None:
    code = textwrap.dedent("""
        import atexit
        from memline.language.spacy_reader import load_spacy
        @atexit.register
        def last():
            reader.read(["Ann likes black tea in Rome."])
            print("read")
        reader = load_spacy()
    """)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, "read"), done.stderr
