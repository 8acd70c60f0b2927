"""Terms: what a text is found by."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memline.language.analysis import TextAnalyser
from memline.language.identifiers import find_identifiers
from memline.language.terms import MAX_TERM_LENGTH, terms_of
from memline.language.words import CJK_RUN, narrow, read_plain

WITH_MODEL = TextAnalyser(True)
WITHOUT_MODEL = TextAnalyser(False)
BOTH = pytest.mark.parametrize("analyser", [WITH_MODEL, WITHOUT_MODEL], ids=["model", "rules"])

#: Any text that a store can keep, with much of what is awkward.
TEXTS = st.lists(
    st.one_of(
        st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
        st.sampled_from(
            [
                "的",
                "了我",
                "杭州",
                "ThinkPad",
                "INC-48213",
                "a.b@c.de",
                "https://x.y/z?",
                "+1 415",
                "İ",
                "ǅ",
                "ß",
                "'s",
                "“”",
                "\u0301",
                "テスト",
            ]
        ),
        st.text("ab1.-_/@:+#,~\\' \n的", max_size=30),
    ),
    max_size=8,
).map("".join)


def terms(text: str, analyser: TextAnalyser = WITH_MODEL) -> tuple[str, ...]:
    return analyser.analyse([text])[0].terms


def plain_terms(text: str) -> tuple[str, ...]:
    text = narrow(text)
    return terms_of(read_plain(text), find_identifiers(text))


def test_english_words_become_lower_case_base_forms_without_stop_words() -> None:
    assert terms("User was running to the shops, and the children's mice ran.") == ("user", "run", "shop", "child", "mouse", "run")


def test_a_noun_in_ing_and_its_verb_share_a_term() -> None:
    assert set(terms("The meeting is on Monday")) & set(terms("We are meeting Bob")) == {"meet"}


def test_without_the_model_words_are_lower_cased() -> None:
    assert terms("Ann's cats don't like the Rain", WITHOUT_MODEL) == ("ann", "cats", "like", "rain")


@BOTH
@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("ticket INC-48213", {"inc-48213", "inc", "48213"}),
        ("call numpy.linalg.svd now", {"numpy.linalg.svd", "numpy", "linalg", "svd"}),
        ("mail Ann.Lee@Example.com", {"ann.lee@example.com", "ann", "lee", "example", "com"}),
        ("see https://example.org/a/b?c=1.", {"https://example.org/a/b?c=1", "example", "org"}),
        ("numpy 2.0.18", {"2.0.18", "18"}),
        ("ring +1-415-555-0100", {"+1-415-555-0100", "415", "14155550100"}),
        ("ring +1 (415) 555-0100", {"+1(415)555-0100", "14155550100"}),
        ("in /a/path/x.txt", {"/a/path/x.txt", "path", "txt"}),
        ("part SKU_77", {"sku_77", "sku", "77"}),
        ("writes C++ and C#", {"c++", "c#"}),
        ("on 2024-05-06", {"2024-05-06", "2024"}),
        ("costs $1,200.50", {"1200.50"}),
        ("has 3 cats and 12.5 kg", {"3", "12.5", "kg"}),
        ("ＩＮＣ－４８２１３", {"inc-48213", "48213"}),
        ("订单号是INC-48213，谢谢", {"订单号", "订单", "inc-48213", "48213"}),
    ],
)
def test_identifiers_and_numbers_are_terms_whole_and_in_parts(analyser: TextAnalyser, text: str, wanted: set[str]) -> None:
    assert wanted <= set(terms(text, analyser))


@BOTH
def test_chinese_is_cut_into_words_also_inside_long_ones(analyser: TextAnalyser) -> None:
    found = terms("我喜欢北京大学的座位", analyser)
    assert {"喜欢", "北京", "大学", "北京大学", "座位"} <= set(found)
    assert not {"我", "的"} & set(found)


@BOTH
def test_mixed_text_has_terms_of_both_languages(analyser: TextAnalyser) -> None:
    assert {"thinkpad", "x1", "carbon", "坏"} <= set(terms("我的 ThinkPad X1 Carbon 坏了", analyser))
    assert {"买", "iphone", "15", "手机"} <= set(terms("我买了iPhone 15手机", analyser))


@BOTH
@pytest.mark.parametrize("text", ["的", "我的", "的了是我", "テスト", "す", "안녕하세요"])
def test_a_cjk_run_never_ends_without_a_term(analyser: TextAnalyser, text: str) -> None:
    assert terms(text, analyser)


@BOTH
def test_a_text_of_stop_words_alone_keeps_them(analyser: TextAnalyser) -> None:
    assert terms("The Who", analyser) == ("the", "who")


def test_kana_and_hangul_are_found_by_a_part_of_a_word() -> None:
    assert set(terms("テスト")) & set(terms("ユニットテスト中"))


@BOTH
def test_composed_and_decomposed_letters_are_one_term(analyser: TextAnalyser) -> None:
    assert terms("Café", analyser) == terms("Cafe\u0301", analyser) == ("café",)


@BOTH
def test_a_long_token_is_cut_to_a_digest_that_tells_it_from_others(analyser: TextAnalyser) -> None:
    first, second = terms("x" * 200 + "1", analyser), terms("x" * 200 + "2", analyser)
    assert len(first) == len(second) == 1
    assert len(first[0]) == MAX_TERM_LENGTH
    assert first[0][:47] == second[0][:47] and first != second


@BOTH
@pytest.mark.parametrize("text", ["", " \n\t", "!?… —", "🙂🙂"])
def test_a_text_without_letters_or_digits_has_no_terms(analyser: TextAnalyser, text: str) -> None:
    assert terms(text, analyser) == ()


@given(TEXTS)
def test_any_text_has_clean_terms(text: str) -> None:
    found = plain_terms(text)
    assert found == plain_terms(text)
    for term in found:
        assert 1 <= len(term) <= MAX_TERM_LENGTH
        assert term == term.lower()
        assert not any(character.isspace() for character in term)
    assert found or CJK_RUN.search(narrow(text)) is None


@settings(max_examples=40, deadline=None)
@given(st.lists(TEXTS, max_size=4))
def test_any_texts_are_read_by_the_model_as_by_themselves(texts: list[str]) -> None:
    together = WITH_MODEL.analyse(texts)
    assert len(together) == len(texts)
    assert together == [WITH_MODEL.analyse([text])[0] for text in texts]
    for analysis in together:
        assert all(term and term == term.lower() and len(term) <= MAX_TERM_LENGTH for term in analysis.terms)
        assert all(0 < len(mention.name) <= 100 for mention in analysis.entities)
        names = [mention.normalised for mention in analysis.entities]
        assert len(names) == len(set(names))


@given(TEXTS)
def test_identifiers_lie_in_the_text_and_never_overlap(text: str) -> None:
    end = 0
    for found in find_identifiers(text):
        assert end <= found.start < found.end
        assert text[found.start : found.end] == found.text
        end = found.end
