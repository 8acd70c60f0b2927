"""What every backend of the index port promises of words. The memories go the whole way, since one backend reads the ledger's postings."""

from __future__ import annotations

from memline.contracts.filters import ScopeIds
from tests.integration.search.backends import ANN, Backend


def test_any_of_the_terms_finds_and_more_of_the_rare_ones_come_first(backend: Backend) -> None:
    tea, both, coffee, none = backend.say(["we drink tea", "we drink tea with saffron", "we drink coffee", "nothing here"])
    assert backend.matching("saffron") == [both]
    assert backend.matching("saffron", "tea")[0] == both
    assert set(backend.matching("saffron", "tea")) == {both, tea}
    assert set(backend.matching("drink")) == {tea, both, coffee}
    assert backend.matching("absent") == []
    assert backend.matching("absent", "here") == [none]
    assert backend.matching() == []
    values = [nominee.value for nominee in backend.index.matching("n", [ANN], ["saffron", "tea"], limit=10)]
    assert values == sorted(values, reverse=True)
    assert all(value > 0 for value in values)


def test_a_term_is_found_whole_and_in_its_own_case(backend: Backend) -> None:
    code, other, plain, upper = backend.say(["ticket inc-48213 open", "ticket inc-48214 open", "number 48213 alone", "the Word Word"])
    assert backend.matching("inc-48213") == [code]
    assert backend.matching("48213") == [plain]
    assert backend.matching("inc") == []
    assert set(backend.matching("ticket")) == {code, other}
    assert backend.matching("Word") == [upper]
    assert backend.matching("word") == []
    assert backend.matching("the") == [upper]


def test_segmented_chinese_and_signs_are_terms_like_others(backend: Backend) -> None:
    tea, rain, signs = backend.say(["我 喜欢 绿茶 INC-7", "今天 下雨", "c++ a/b @ann #tag 50% x=1 …"])
    assert backend.matching("绿茶") == [tea]
    assert backend.matching("茶") == []
    assert backend.matching("绿") == []
    assert backend.matching("下雨", "绿茶") in ([tea, rain], [rain, tea])
    for term in ("c++", "a/b", "@ann", "#tag", "50%", "x=1", "…"):
        assert backend.matching(term) == [signs]
    for term in ("c", "a", "b", "ann", "tag", "50", "x"):
        assert backend.matching(term) == []


def test_scopes_and_namespaces_hold_for_words(backend: Backend) -> None:
    (mine,) = backend.say(["green tea"])
    (run,) = backend.say(["green tea again"], run="r1")
    (bot,) = backend.say(["green tea indeed"], agent="bot")
    (bobs,) = backend.say(["green tea"], user="bob")
    (other,) = backend.say(["green tea"], namespace="other")
    assert set(backend.matching("tea")) == {mine, run, bot}
    assert backend.matching("tea", scopes=[ScopeIds("ann", None, "r1")]) == [run]
    assert set(backend.matching("tea", scopes=[ScopeIds("bob"), ScopeIds("ann", "bot")])) == {bobs, bot}
    assert backend.matching("tea", namespace="other") == [other]
    assert backend.matching("tea", scopes=[ScopeIds("carl")]) == []


def test_pages_of_equally_good_matches_tile_the_ranking(backend: Backend) -> None:
    ids = backend.say([f"tea number n{number}" for number in range(150)])
    pages = [backend.index.matching("n", [ANN], ["tea"], limit=40, offset=offset) for offset in range(0, 200, 40)]
    assert [len(page) for page in pages] == [40, 40, 40, 30, 0]
    found = [nominee.id for page in pages for nominee in page]
    assert sorted(found) == sorted(ids)
    assert backend.index.matching("n", [ANN], ["tea"], limit=0) == []


def test_what_is_no_more_is_not_matched(backend: Backend) -> None:
    from memline.search.index.port import Write
    from tests.integration.search.backends import id_of

    keep, gone = backend.say(["tea one", "tea two"])
    assert set(backend.matching("tea")) == {keep, gone}
    (key,) = [state.key for state in backend.stored() if state.key.id == gone]
    if type(backend.index).__name__ == "EmbeddedIndex":
        return  # its words are the ledger's, and go with the memory itself
    backend.write(Write(key, None))
    assert backend.matching("tea") == [keep]
    assert id_of("x") not in backend.matching("tea")
