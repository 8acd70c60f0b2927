"""Days that are named from where the speaker stands ("yesterday", "last week", 上周五), with the dates they were.

A memory is read long after its turn was said, so the date is written behind the words: "User met Ana yesterday (2026-05-01)". Words that
may mean two days ("next Friday", a bare weekday, "in two weeks") stay as they are, and so does everything in quotes or code.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta

__all__ = ["with_dates"]

#: What "day", "week", "month" or "year" of the number of them from now is called.
_Name = Callable[[datetime, int], str]

_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_NUMBERS = {word: number for number, word in enumerate("one two three four five six seven eight nine ten eleven twelve".split(), 1)}
_NUMBERS |= {"a": 1, "an": 1, "a couple of": 2}
_CHINESE_NUMBERS = {c: number for number, c in enumerate("一二三四五六七八九十", 1)} | {"两": 2}
_WHICH = {"last": -1, "this": 0, "next": 1, "上": -1, "这": 0, "本": 0, "下": 1}
_NEAR = {
    "today": 0,
    "tonight": 0,
    "this morning": 0,
    "this afternoon": 0,
    "this evening": 0,
    "yesterday": -1,
    "last night": -1,
    "tomorrow": 1,
}
_NEAR |= {"the day before yesterday": -2, "the day after tomorrow": 2}
_CHINESE_NEAR = {"今": 0, "昨": -1, "前": -2, "大前": -3, "明": 1, "后": 2, "大后": 3}
_CHINESE_YEARS = {"前年": -2, "去年": -1, "今年": 0, "明年": 1, "后年": 2}
_UNITS = {"天": "day", "周": "week", "星期": "week", "月": "month", "年": "year"}

# Atomic: what is dated already must not be found again in part. "Twenty-two days ago" and "two or three" are not two and three.
_ENGLISH = re.compile(
    r"(?<![\w.,/-])(?>"
    r"(?P<near>the day before yesterday|the day after tomorrow|yesterday|today|tonight|tomorrow|last night|"
    r"this (?:morning|afternoon|evening))"
    r"(?: (?:morning|afternoon|evening|night))?"
    rf"|(?<!and )(?<!or )(?<!to )(?<!hundred )(?P<number>\d{{1,3}}|{'|'.join(sorted(_NUMBERS, key=len, reverse=True))}) "
    r"(?P<unit>day|week|month|year)s? ago"
    r"|(?<!the )(?<!of )(?P<which>last|this|next) (?P<span>weekend|week|month|year)(?! (?:of|and|or)\b)"
    rf"|(?<!the )last (?P<weekday>{'|'.join(day.capitalize() for day in _DAYS)})"
    r")(?>(?:['’]s)?)(?![\w(-]| \()"
)
_CHINESE = re.compile(
    r"(?>"
    r"(?<![以之先目当眼提今])(?P<near>大前|大后|今|昨|前|明|后)(?:天(?!天)(?:早上|上午|下午|晚上)?|晚|早(?!就))"
    r"|(?<!以)(?P<which>[上这本下])(?:个)?(?:周(?![期年围边])|星期)(?P<weekday>[一二三四五六日天])?"
    r"|(?P<which_month>[上这下])个月|(?P<this_month>本月)"
    r"|(?<![以之])(?P<year>前年|去年|今年|明年|后年)"
    # a month's number is its name: "before March", not "three months ago"
    r"|(?<![\d.一二两三四五六七八九十百千几])(?P<number>\d{1,3}|[一二两三四五六七八九十])(?:个(?P<months>月)|个?(?P<unit>天|周|星期|年))(?:以前|之前|前)"
    r")(?![（(])"
)
_BEGINS = re.compile(r"(?:^|(?<=[.!?] ))[A-Z](?=[a-z])")
_LEFT_ALONE = re.compile(r"`[^`]{0,500}`|\"[^\"]{0,500}\"|“[^”]{0,500}”|「[^」]{0,500}」|《[^》]{0,500}》|\bhttps?://\S+")


def with_dates(text: str, said_at: datetime) -> str:
    """*text* with the dates (UTC) of the days that it names as seen from *said_at*; what no date can be told of stays as it is."""
    for pattern, meaning, brackets in ((_ENGLISH, _in_english, " ({})"), (_CHINESE, _in_chinese, "（{}）")):
        alone = [found.span() for found in _LEFT_ALONE.finditer(text)]
        # a capital begins a sentence, or it is a name's ("USA Today")
        plain = _BEGINS.sub(lambda found: found.group().lower(), text)
        for found in reversed(list(pattern.finditer(plain))):
            if any(start <= found.start() < end for start, end in alone):
                continue
            try:
                date = meaning(found, said_at)
            except OverflowError:  # before the year 1, or after 9999
                continue
            text = text[: found.end()] + brackets.format(date) + text[found.end() :]
    return text


def _in_english(found: re.Match[str], said_at: datetime) -> str:
    if near := found["near"]:
        return _day(said_at, _NEAR[near])
    if unit := found["unit"]:
        number = found["number"]
        return _SPANS[unit](said_at, -(int(number) if number.isdigit() else _NUMBERS[number]))
    if weekday := found["weekday"]:
        back = (said_at.weekday() - _DAYS.index(weekday.lower())) % 7 or 7
        return _day(said_at, -back)
    return _SPANS[found["span"]](said_at, _WHICH[found["which"]])


def _in_chinese(found: re.Match[str], said_at: datetime) -> str:
    if near := found["near"]:
        return _day(said_at, _CHINESE_NEAR[near])
    if unit := found["unit"] or found["months"]:
        number = found["number"]
        back = -(int(number) if number.isdigit() else _CHINESE_NUMBERS[number])
        return _chinese_week(said_at, back) if _UNITS[unit] == "week" else _SPANS[_UNITS[unit]](said_at, back)
    if year := found["year"]:
        return _year(said_at, _CHINESE_YEARS[year])
    if found["this_month"] or found["which_month"]:
        return _month(said_at, _WHICH[found["which_month"] or "本"])
    weeks = _WHICH[found["which"]]
    if weekday := found["weekday"]:
        return _day(said_at, 7 * weeks - said_at.weekday() + "一二三四五六日天".index(weekday) - (weekday == "天"))
    return _chinese_week(said_at, weeks)


def _day(at: datetime, number: int) -> str:
    return (at + timedelta(days=number)).date().isoformat()


def _week(at: datetime, number: int) -> str:
    return "week of " + _day(at, 7 * number - at.weekday())


def _chinese_week(at: datetime, number: int) -> str:
    return _day(at, 7 * number - at.weekday()) + "当周"


def _weekend(at: datetime, number: int) -> str:
    return "weekend of " + _day(at, 7 * number - at.weekday() + 5)


def _month(at: datetime, number: int) -> str:
    year, month = divmod(at.year * 12 + at.month - 1 + number, 12)
    if year < 1:
        raise OverflowError
    return f"{year:04}-{month + 1:02}"


def _year(at: datetime, number: int) -> str:
    if at.year + number < 1:
        raise OverflowError
    return f"{at.year + number:04}"


_SPANS: dict[str, _Name] = {"day": _day, "week": _week, "weekend": _weekend, "month": _month, "year": _year}
