"""When two texts are the same memory, and when they are not."""

from __future__ import annotations

import hashlib
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memline.contracts.content_hash import content_hash, fold, text_md5

#: Characters where folding has something to decide, next to ordinary ones.
AWKWARD = "aAbBzZ ßẞİıǅǈΣσςÄäE\u0301\u030c\u0308J10²½Ⅷ５Ａ　\t\n\u2028\u00a0\"'`‘’“”«»「」《》.-_上海ﬁ"
awkward = st.text(st.sampled_from(AWKWARD), max_size=30)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40) | awkward

#: Words whose case carries no meaning: no digit, no inner capital.
plain_words = st.text(st.sampled_from("abcdefäöüßéèñжыω"), min_size=1, max_size=8)
sentences = st.lists(plain_words, min_size=1, max_size=8)
spaces = st.sampled_from([" ", "  ", "\t", "\n", "\r\n", "\u00a0", "\u3000", " \n "])


@settings(max_examples=250)
@given(texts)
def test_folding_twice_changes_nothing_more(text: str) -> None:
    assert fold(fold(text)) == fold(text)


@pytest.mark.parametrize("text", ["J\u030c'x Zed'", "J\u030c‘x Zed’", "İ'x '(Zed)'", "İ‘x ‘(Zed)’", '"X\nY" Z "w"', "T\u0308 'A b' C'"])
def test_folding_twice_changes_nothing_more_where_folding_joins_or_splits_letters(text: str) -> None:
    assert fold(fold(text)) == fold(text)


@given(texts)
def test_the_hash_is_the_sha256_of_the_folded_text(text: str) -> None:
    assert content_hash(text) == hashlib.sha256(fold(text).encode()).hexdigest() == content_hash(fold(text))


@settings(max_examples=150)
@given(texts, st.data())
def test_white_space_carries_no_meaning(text: str, data: st.DataObject) -> None:
    respaced = "".join(data.draw(spaces) if c.isspace() else c for c in text)
    assert content_hash(data.draw(spaces) + respaced + data.draw(spaces)) == content_hash(text)


@given(texts)
def test_unicode_composition_carries_no_meaning(text: str) -> None:
    assert content_hash(unicodedata.normalize("NFD", text)) == content_hash(text) == content_hash(unicodedata.normalize("NFC", text))


@given(st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=30))
def test_full_width_forms_carry_no_meaning(text: str) -> None:
    wide = "".join("\u3000" if c == " " else chr(ord(c) + 0xFEE0) for c in text)
    assert content_hash(wide) == content_hash(text)


@given(sentences, st.lists(st.booleans(), min_size=8, max_size=8))
def test_a_first_capital_carries_no_meaning(words: list[str], capitals: list[bool]) -> None:
    written = [word[0].upper() + word[1:] if up and len(word[0].upper()) == 1 else word for word, up in zip(words, capitals, strict=False)]
    assert content_hash(" ".join(written)) == content_hash(" ".join(words))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("User likes Tea", "user likes tea"),
        ("(Hello) there", "(hello) there"),
        ("Ａｎｎ　ｌｉｋｅｓ　ｔｅａ", "ann likes tea"),
        ("cafe\u0301", "Café"),
        ("用户住在上海", "  用户住在上海\n"),
        ("He said “Yes Sir”  Then  left", "he said “Yes Sir” then left"),
        ('a "b\nC" D "e"', 'a "b C" d "e"'),
    ],
)
def test_these_are_one_memory(one: str, other: str) -> None:
    assert content_hash(one) == content_hash(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The room is 10² metres", "The room is 102 metres"),
        ("Maße", "Masse"),
        ("ﬁ", "fi"),
        ("locker A7x", "locker a7x"),
        ("key abC", "key abc"),
        ("works at NASA", "works at nasa"),
        ("uses iPhone", "uses iphone"),
        ("Anna-Maria", "anna-maria"),
        ('the file is "Readme"', 'the file is "readme"'),
        ("the file is 'Read me'", "the file is 'read me'"),
        ("the film “Her”", "the film “her”"),
        ("the film ‘Her’", "the film ‘her’"),
        ("the film «Elle»", "the film «elle»"),
        ("读过《Dune》", "读过《dune》"),
        ("说「Hello」", "说「hello」"),
        ("说『Hello』", "说『hello』"),
        ("run `Make`", "run `make`"),
        ("```\nMake all\n```", "```\nmake all\n```"),
        ("no tea", "not ea"),
        ("Monday", "Tuesday"),
        ("a.b", "ab"),
    ],
)
def test_these_are_two_memories(one: str, other: str) -> None:
    assert content_hash(one) != content_hash(other)


@given(sentences, st.sampled_from(["“{}”", '"{}"', "`{}`", "«{}»", "「{}」", "《{}》", "'{}'", "‘{}’", "```{}```"]))
def test_case_in_quotes_and_code_is_kept(words: list[str], marks: str) -> None:
    quoted = " ".join(["Title", *words])
    assert quoted in fold(f"User said {marks.format(unicodedata.normalize('NFC', quoted))} Then left")
    assert fold(f"User said {marks.format(quoted)} Then left").startswith("user said ")
    assert fold(f"User said {marks.format(quoted)} Then left").endswith(" then left")


def test_an_apostrophe_is_no_quote() -> None:
    assert fold("Ann's dog and Tom's Cat") == "ann's dog and tom's cat"


@pytest.mark.parametrize("text", ["“" * 200_000, "《a" * 100_000, "'" * 200_001, "`" * 200_000, "‘a " * 70_000, "!" * 200_000])
def test_a_long_text_of_open_quotes_folds_in_linear_work(text: str) -> None:
    assert fold(fold(text)) == fold(text)


def test_md5_is_of_the_exact_text() -> None:
    assert text_md5("Tea") == hashlib.md5(b"Tea", usedforsecurity=False).hexdigest()
    assert text_md5("Tea") != text_md5("tea")
