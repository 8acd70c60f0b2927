"""Chinese small talk by its words, as `small_talk` has it for English: all are grammar or courtesy, and what 我 says is about the talk.

Words and their parts of speech are rjieba's, which the analyser has loaded anyway: particles, interjections, adverbs and prepositions need
no list. A wish, thanks and praise to the other one are small talk whatever they name.
"""

from __future__ import annotations

import re
from string import ascii_letters

from memline.pipeline.extractors.spans import bare
from memline.pipeline.extractors.words_small_talk import COURTEOUS as COURTEOUS_ENGLISH
from memline.pipeline.extractors.words_small_talk import FIRST as FIRST_ENGLISH
from memline.pipeline.extractors.words_small_talk_chinese import (
    AGAIN,
    COURTEOUS,
    FIRST,
    GRAMMAR,
    IN_MIND,
    LEAVING,
    LEFT,
    LIFE,
    MINE,
    OF_TALK,
    SKIPPED,
    TAKES_ME,
    TELLING,
    TIMES,
    TO_YOU,
    WISHING,
)

__all__ = ["is_small_talk_chinese"]

#: More characters say something.
_LONGEST = 30

_NUMBER = re.compile(r"\d|[二三四五六七八九百千]")
#: What somebody can't do, or how he is: "我听不见", "不太开心".
_ABLE_OR_WELL = re.compile(r"[听看]不[见到清]|不(?:会|能)(?:说|讲|听|看)(?:话|$)|(?:不|没)太?(?:开心|高兴|快乐|幸福|满意)")
#: Verbs that 我爱 may be followed by, where one of these is their object: "我喜欢听你说", but not "我爱说话".
_VERBS = frozenset(("说", "说话", "话", "聊", "聊天", "听"))
_OTHERS_OWN = frozenset(("你", "您", "你们", "这", "那", "这个", "那个", "这样"))
#: Characters of small talk and its marks; with more than `_OTHERS` besides, a sentence is none, and need not be taken apart.
_CHARACTERS = frozenset("".join(COURTEOUS)) | frozenset("，,。.!！~～…、 " + ascii_letters)
_OTHERS = 1
#: Idioms and set phrases.
_IDIOMS = frozenset(("i", "l"))
#: Before an adjective these make an exclamation: 太震撼了, 好浪漫.
_HOW = frozenset(("太", "真", "好", "多么", "这么", "真是", "可真", "超", "超级", "简直"))
_ADJECTIVES = frozenset(("a", "an", "i", "l"))
_LATIN = re.compile(r"[A-Za-z]+")
_OTHER_ONE = r"(?:[你您]们?|大家|各位|阁下)"
_OTHER_ONE_SPOKEN_TO = re.compile(r"[谢激祝愿你您]")
_WISHED = re.compile(r"快乐|如意|愉快|恭喜")
_WISHES = re.compile(
    rf"(?:那|在此|最后|衷心|提前|也|再次|先|就|真心|诚挚|\W)*(?:祝|恭祝|祝愿|祝福|预祝|愿){_OTHER_ONE}[^，,。；;我咱]{{1,14}}"
)
_THANKS = re.compile(
    r"(?:真的?|真是|非常|十分|太|很|特别|万分|也|还是|再次|哈+|嗯+|好的|\W)*"
    rf"(?:(?:多谢|谢谢|感谢|谢过|感激|谢){_OTHER_ONE}[^，,。；;我咱]{{0,10}}|(?:多谢|谢谢|感谢|感激)[^，,。；;我咱]{{1,4}})"
)
_PRAISES = re.compile(
    r"(?:哇+|哈+|啊+|天[哪呐啊]|\W)*[你您]们?(?:也|可|简直|实在|果然|怎么)?"
    r"(?:真的?|太(?!太)|这么|那么|超级?|特别|非常|可真|真是|实在是)是?[^，,。；;我咱不在叫姓名]{1,7}"
)


def is_small_talk_chinese(sentence: str) -> bool:
    """Nothing in *sentence* (Chinese) but courtesies."""
    if sentence.endswith(("?", "？", "吗")):
        return False  # asked in courtesy it yields nothing as a question either
    text = sentence.strip(" 。.!！~～…、,，;；")
    if not 2 <= len(text) <= _LONGEST or _NUMBER.search(text) or bare(text) != text:
        return False
    said_to = _OTHER_ONE_SPOKEN_TO.search(text) is not None and any(
        pattern.fullmatch(text) is not None for pattern in (_WISHES, _THANKS, _PRAISES)
    )
    if not said_to and _WISHED.search(text) is None and sum(character not in _CHARACTERS for character in text) > _OTHERS:
        return False
    import rjieba

    tagged = rjieba.tag(text)
    if (clauses := _clauses(tagged)) is not None:
        return all(_is_of_the_talk(clause) for clause in clauses)
    return said_to and not _names_somebody(tagged)


def _clauses(tagged: list[tuple[str, str]]) -> list[list[str]] | None:
    """The words between marks; None where one of them is no small talk."""
    wishes = not WISHING.isdisjoint(word for word, _ in tagged) and FIRST.isdisjoint(word for word, _ in tagged)
    clauses: list[list[str]] = [[]]
    for word, tag in tagged:
        before = clauses[-1][-1] if clauses[-1] else ""
        if not word[0].isalnum():
            clauses.append([])
        elif before in _HOW and tag in _ADJECTIVES and len(word) > 1 and FIRST.isdisjoint(clauses[-1]):
            clauses[-1].append(word)
        elif parts := _courteous(word, tag, wishes):
            clauses[-1].extend(parts)
        else:
            return None
    return [clause for clause in clauses if clause]


def _courteous(word: str, tag: str, wishes: bool) -> list[str]:
    """*word*, or what it is made of where the dictionary keeps it whole (太厉害, 没看); nothing if it is no small talk."""
    if word in COURTEOUS:
        return [word]
    if word in TELLING:
        return []
    if tag in GRAMMAR or (wishes and tag in _IDIOMS and len(word) >= 4):
        return [word]
    if _LATIN.fullmatch(word) is not None:
        return [word] if word.lower() in COURTEOUS_ENGLISH and word.lower() not in FIRST_ENGLISH else []
    return _made_of(word) if len(word) <= 6 else []


def _made_of(word: str) -> list[str]:
    """Words of small talk that make up *word*, long ones first."""
    for end in range(len(word), 0, -1):
        if word[:end] in COURTEOUS:
            if end == len(word):
                return [word]
            if rest := _made_of(word[end:]):
                return [word[:end], *rest]
    return []


def _names_somebody(tagged: list[tuple[str, str]]) -> bool:
    return any(tag in ("ns", "nt", "nz") or _LATIN.fullmatch(word) for word, tag in tagged)


def _is_of_the_talk(found: list[str]) -> bool:
    """What 我 says in *found*, a clause of words of small talk only, is about the talk."""
    if TO_YOU.isdisjoint(found) and any(word in LIFE and not _is_left(found, at) for at, word in enumerate(found)):
        return False
    if TIMES.issuperset(found) or _ABLE_OR_WELL.search("".join(found)) is not None:
        return False
    own = [index for index, word in enumerate(found) if word in FIRST and (index == 0 or found[index - 1] not in TAKES_ME)]
    if own and not TIMES.isdisjoint(found) and AGAIN.isdisjoint(found):
        return False
    return all(_about_talk(found, index) for index in own)


def _about_talk(found: list[str], at: int) -> bool:
    rest = found[at + 1 :]
    if not rest:
        return True
    if rest[0] == "的":
        return len(rest) > 1 and rest[1] in MINE
    for index, word in enumerate(rest):
        if word in LEAVING:
            return _is_left(rest, index)
        if word in ("喜欢", "爱"):
            after = rest[index + 1 :]
            return OF_TALK.issuperset(after) and (_VERBS.isdisjoint(after) or not _OTHERS_OWN.isdisjoint(after))
        if word in IN_MIND:
            return True
        if word not in SKIPPED:
            return False
    return True


def _is_left(found: list[str], at: int) -> bool:
    """先睡了, 去忙啦: whoever says it takes his leave."""
    ends = at + 1 == len(found) or found[at + 1] in LEFT
    return found[at] in LEAVING and ends and any(word in ("先", "去", "该", "得") for word in found[:at])
