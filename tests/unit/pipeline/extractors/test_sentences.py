"""Where sentences end, and where long ones are cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memline.pipeline.extractors.sentences import MAX_FACT, passages, pieces, sentences, without_code


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ("Dr. Smith and Mrs. Jones met at 3.30 p.m. in St. Louis.", ["Dr. Smith and Mrs. Jones met at 3.30 p.m. in St. Louis."]),
        ("It costs 3.5 mg. It works.", ["It costs 3.5 mg.", "It works."]),
        ("J. K. Rowling wrote it. I read it.", ["J. K. Rowling wrote it.", "I read it."]),
        ("I work at Acme Inc. and like it.", ["I work at Acme Inc. and like it."]),
        ("I work at Acme Inc. I like it.", ["I work at Acme Inc.", "I like it."]),
        ("See https://x.io/a.b?c=1. Then write to a.b@c.org. Done", ["See https://x.io/a.b?c=1.", "Then write to a.b@c.org.", "Done"]),
        ('She said "Stop. Go home." and left. Bye', ['She said "Stop. Go home." and left.', "Bye"]),
        ("Use e.g. tea. Wait... what? Well… fine", ["Use e.g. tea.", "Wait... what?", "Well… fine"]),
        ("我住在上海。你呢？好！走吧；再见", ["我住在上海。", "你呢？", "好！", "走吧；", "再见"]),
        ("他说：「走。回家。」然后走了。", ["他说：「走。回家。」然后走了。"]),
        ("It is No. 5. No. I said no.", ["It is No. 5.", "No.", "I said no."]),
        ("Version 2.0.18 is out. Get it", ["Version 2.0.18 is out.", "Get it"]),
        ("I met Ana on Jan. 5 in the U.S. with Bob. It rained.", ["I met Ana on Jan. 5 in the U.S. with Bob.", "It rained."]),
    ],
)
def test_sentences_end_where_a_reader_ends_them(text: str, expected: list[str]) -> None:
    assert sentences(text) == expected


def test_a_wrapped_line_goes_on_and_a_new_line_does_not() -> None:
    assert [sentences(passage.text) for passage in passages("I live in\nBerlin and\nlike it\nI have a dog")] == [
        ["I live in Berlin and like it", "I have a dog"]
    ]


def test_closed_fences_go_and_open_ones_stay() -> None:
    assert without_code("a\n```py\nx\n```\nb").split() == ["a", "b"]
    assert without_code("a\n```py\nx").split() == ["a", "x"]


def test_a_long_sentence_is_cut_between_clauses() -> None:
    text = ", ".join(f"clause number {number} says something" for number in range(60))
    cut = pieces(text)
    assert len(cut) > 1
    assert all(len(piece) <= MAX_FACT for piece in cut)
    assert all(piece.endswith(",") for piece in cut[:-1])
    assert " ".join(cut) == text


def test_a_word_is_never_cut() -> None:
    word = "x" * 5000
    assert pieces(f"a {word} b") == ["a", word, "b"] or pieces(f"a {word} b") == [f"a {word}", "b"]


@given(st.text(alphabet=st.sampled_from("ab ,.。我 "), max_size=3000), st.integers(20, 200))
def test_pieces_lose_nothing_but_white_space(text: str, limit: int) -> None:
    assert "".join("".join(pieces(text, limit)).split()) == "".join(text.split())


@given(st.text(max_size=400))
def test_sentences_lose_nothing_but_white_space(text: str) -> None:
    assert "".join("".join(sentences(text)).split()) == "".join(text.split())
