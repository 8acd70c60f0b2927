"""Chinese: what asks, what states, and 我 as the speaker.

我 becomes the speaker (用户, or the message's name), 我们 the speaker and 同伴. Text in quotes, codes and addresses stays as it is.
"""

from __future__ import annotations

import re

from memline.pipeline.extractors.said import Said
from memline.pipeline.extractors.spans import CJK, PROTECTED, bare

__all__ = [
    "clauses_with_subject",
    "depends_chinese",
    "is_chinese",
    "is_request_chinese",
    "said_in_request_chinese",
    "third_person_chinese",
    "without_lead_in_chinese",
]

_IDEOGRAPH = re.compile(f"[{CJK}]")
_KANA_HANGUL = re.compile(r"[\u3040-\u30ff\uac00-\ud7af]")
_LATIN_WORD = re.compile(r"[A-Za-zÀ-ɏ]+")
_FUNCTION = re.compile(r"[我你您他她它的了是在有和也不吗呢吧这那们就都会要想请]")

_KIN = (
    "爸爸|妈妈|父亲|母亲|父母|爸|妈|老婆|老公|妻子|丈夫|太太|先生|爱人|未婚妻|未婚夫|男朋友|女朋友|男友|女友|对象|儿子|女儿|孩子|宝宝|哥哥|弟弟|姐姐|妹妹|哥|弟|姐|妹|"
    "爷爷|奶奶|外公|外婆|姥姥|姥爷|叔叔|阿姨|舅舅|姑姑|表哥|表弟|表姐|表妹|堂哥|堂弟|侄子|侄女|朋友|同事|老板|领导|同学|室友|邻居|房东|导师|老师|"
    "小狗|小猫|狗|猫|宠物"
)
_FIRST = re.compile(
    rf"(?P<protected>{PROTECTED})"
    r"|(?P<idiom>自我|忘我|我国|我行我素|你死我活|我见犹怜|唯我独尊|小我|大我|无我)"
    r"|(?P<you>(?:你|您)(?!们|好))"
    r"|(?P<group>我们|咱们|咱俩|我俩)"
    rf"|(?:我|俺|本人)(?P<kin>{_KIN})"
    r"|(?P<one>我自己|我|俺|本人(?!人))"
)
_ASK_WORD = re.compile(
    r"什么|怎么|怎样|如何|哪[里儿个些家种款位天年本部]?|谁|几[点个天号月年岁次]|多少|多久|多大|多远|多长|为什么|为何|是否|是不是|能不能|可不可以|有没有|要不要|会不会|好不好|"
    r"行不行|对不对|该不该|吗"
)
_QUESTION_END = re.compile(
    r"(?:[?？]|吗[?？!！。.~～]*|(?:什么|怎么|谁|哪里|哪儿|怎么样|怎样|如何|怎么办|多少|为什么)呢?[?？!！。.~～]*|(?:好不好|行不行|对不对|可以吗|好吗|行吗)[?？!！。.~～]*)$"
)
_ORDER = re.compile(
    r"(?:请|麻烦|拜托|劳驾)?(?:你|您)?(?:能不能|能否|可不可以|可以|能|帮忙)?(?:请|再)?"
    r"(?:帮我|帮忙|帮我们|给我|给我们|告诉我|教我|替我|推荐|介绍一下|介绍|解释|写一[个篇封段首]|翻译|总结|列出|列举|说说|讲讲|谈谈|分析|生成|起个|取个|建议|查一下|查查|看看|想一个|提醒我|"
    r"比较一下|修改|润色|设计)|^请(?!假|客|问$)"
)
_REMIND = re.compile(r"提醒我")
_LEAD_IN = re.compile(
    r"(?:请|麻烦|帮我|你|您|要|一定要|务必)*(?:记住|记一下|记下来|记下|记得|别忘了|不要忘记|注意|备注|记录一下|记录)(?:一下|了|这个|这件事)?[：:，,\s]*(?=.)"
)
_STATES = re.compile(r"我|俺|咱|本人|[的是在有了住过用叫]|[\d]")
_CLAUSE = re.compile(rf"(?P<protected>{PROTECTED})|(?P<border>[，,；;：:]|\s+|——|—)")
_SPECIFIC = re.compile(
    rf"\d|[一二三四五六七八九十两]+[个只条岁月号年天]|[A-Za-z]{{2,}}|[\"“「《]|{_KIN}|旅行|婚礼|生日|面试|考试|手术|过敏|怀孕|论文|公司|房子|宝宝|出差|搬家|糖尿病|素食"
)
_OWN = re.compile(r"我(?!国|想问|想知道|该|应该|能|可以|要怎么|怎么|如何)|我的|咱")
_DROPPED_SUBJECT = re.compile(
    r"(?:现在|目前|平时|经常|最近|每天|每周|还|也|很|最|特别|非常|一直|从来|已经|今年|去年|明年|下周|下个月|上周|昨天|今天|明天|不太|不|没|"
    r"只|都|刚|正|总|常|偶尔|打算|准备|计划)*"
    r"(?:喜欢|爱|讨厌|住在|住|是|在|有|养|想|会|要|做|去|来|打算|准备|计划|学|吃|喝|用|开|买|工作|上班|过敏|结婚|搬|姓|叫|属|怕|擅长|负责|认识|习惯|需要)"
)
_DEPENDS = re.compile(
    r"(?:它们|它|他们|她们|他|她|这些|那些|这个|那个|这|那|其中|其)(?![一-龥]{0,2}(?:天|年|次|周|个月|时候|几天|儿|里|边))"
)


def is_chinese(text: str) -> bool:
    """The rules for Chinese fit *text*, quotes and codes left out of the count."""
    outside = bare(text)
    if _KANA_HANGUL.search(outside):
        return False
    ideographs = len(_IDEOGRAPH.findall(outside))
    if not ideographs:
        return False
    words = len(_LATIN_WORD.findall(outside))
    return ideographs > 2 * words or (ideographs > words and bool(_FUNCTION.search(outside)))


def is_request_chinese(sentence: str) -> bool:
    """*sentence* is a question, or asks for something."""
    outside = bare(sentence, "物").strip()
    if _QUESTION_END.search(outside) or (outside.endswith("呢") and (len(outside) <= 4 or _ASK_WORD.search(outside))):
        return True
    return any(_ORDER.match(part) for part in _parts(sentence))


def said_in_request_chinese(sentence: str) -> list[Said]:
    """The statements inside a question or request, and the request itself where it tells something of the speaker."""
    stated: list[str] = []
    asked: list[str] = []
    parts = _parts(sentence)
    for index, part in enumerate(parts):
        outside = bare(part, "物")
        last = index == len(parts) - 1 and bool(_QUESTION_END.search(bare(sentence, "物").strip()))
        if last or _ASK_WORD.search(outside) or _ORDER.match(part):
            asked.append(part)
        elif len(part) >= 2:
            (asked if asked and not _states(part) else stated).append(part)
    found: list[Said] = []
    text = "，".join(re.sub(r"^(?:因为|由于|既然|鉴于)", "", part) for part in stated)
    if text and _states(text):
        found.append(Said(text))
    elif text:
        asked = [text, *asked]
    question = "，".join(asked)
    if question and ((_OWN.search(question) and _SPECIFIC.search(question)) or _REMIND.search(question)):
        found.append(Said("：" + question.rstrip("。.！!"), asked=True))
    return found


def without_lead_in_chinese(sentence: str) -> str:
    """*sentence* without 请记住 and the like before a statement."""
    found = _LEAD_IN.match(sentence)
    if found is None or not _STATES.search(sentence[found.end() :]):
        return sentence
    return sentence[found.end() :]


def third_person_chinese(sentence: str, speaker: str, *, addressee: str | None = None) -> str:
    """*sentence* as said about *speaker*; with *addressee*, 你 is that one."""

    def change(match: re.Match[str]) -> str:
        if match.group("protected") or match.group("idiom"):
            return match.group()
        if match.group("you"):
            return addressee or match.group()
        if match.group("group"):
            return f"{speaker}和同伴"
        if match.group("kin"):
            return f"{speaker}的{match.group('kin')}"
        return f"{speaker}自己" if match.group("one") == "我自己" else speaker

    return _FIRST.sub(change, sentence)


def depends_chinese(sentence: str) -> bool:
    """*sentence* begins with a pronoun for what was said before."""
    return bool(_DEPENDS.match(sentence))


def clauses_with_subject(sentence: str, speaker: str) -> list[str]:
    """The clauses of a short sentence about *speaker*, each with the subject; empty where a clause can't stand alone."""
    parts = [part.strip() for part in re.split(r"[，,；;]", _unquoted(sentence)) if part.strip()]
    if len(parts) < 2 or not parts[0].startswith(speaker):
        return []
    found = [parts[0]]
    for part in parts[1:]:
        part = re.sub(r"^(?:而且|并且|同时|还有|另外)", "", part)
        if part.startswith(speaker):
            found.append(part)
        elif _DROPPED_SUBJECT.match(part):
            found.append(speaker + part)
        else:
            return []
    return found


def _unquoted(sentence: str) -> str:
    """*sentence* if its commas are its own, "" if one may stand in a quote or an address."""
    return "" if bare(sentence) != sentence else sentence


def _parts(sentence: str) -> list[str]:
    """Clauses without the marks between and after them."""
    found: list[str] = []
    start = 0
    for match in _CLAUSE.finditer(sentence):
        if match.group("protected"):
            continue
        found.append(sentence[start : match.start()])
        start = match.end()
    found.append(sentence[start:])
    return [part for part in (part.strip(" 。.?？!！~～") for part in found) if part]


def _states(text: str) -> bool:
    return bool(re.search(r"我|俺|咱|本人", text)) and len(text) >= 4 and not re.match(r"如果|要是|假如|我想(?:问|知道|请)", text)
