"""Passwords: where somebody says that one comes ("my password is …", `pwd=…`, "密码是…"), in addresses (`user:…@host`), on command lines.

After `:` and `=` nearly everything is one; after "is" a plain word has to end what is said, or a sentence such as "my password is too weak"
would lose its words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from memline.contracts.policy import Kind
from memline.producer.policy.found import Found, is_stand_in, places
from memline.producer.policy.password_words import ABOUT, HINTS, NAMES, STARTS, WHO

__all__ = ["find_passwords"]

_WHERE = (
    r"(?:\s(?:there|here)|\s{1,3}(?:for|of|on|to|at|in|für|para|de|del|della|do|da|voor|van|til|till|pour|di|от|для|к|to log into"
    r"|i use for|we use for|that i use for)\s"
    r"(?:[\w.@'’/-]{1,40}\s){0,5}?[\w.@'’/-]{1,40}|\s{0,2}\([^()\n]{1,40}\)|\s(?:i|we|they|you)\s(?:\w{1,12}\s){0,2}?\w{1,12})?"
)
_CLEAR = r"(?P<clear>[?？]?\s?(?:it's|it’s|it is|that's)\b|\||:=|=>|==?|->|→|:|：|＝)"
_SAID = (
    r"(?P<said>(?:\s(?:right now|today|again|at the moment))?\s(?:is|was|will be|has been|should be|to|are|ist|war|lautet|es|era|est|é|è"
    r"|er|är|jest|to|ay|ko ay|olarak|является|стал|это|—|–|-)(?:\s(?:now|currently|still|set to|simply|just|jetzt|ahora|теперь))?\s"
    r"|\s?[—–]\s|是|为|為|は|이|가|는|은|は、)"
)
_AFTER = re.compile(rf"(?:s\b|[_-](?:hash|string|value))?[\"'`\])]{{0,2}}{_WHERE}\s{{0,3}}(?:{_CLEAR}|{_SAID})(?P<gap>\s{{0,3}})")
#: "password latte2024": nothing stands between, so the value has to look chosen.
_BARE = re.compile(r"(?P<gap>\s{1,2})(?=[^\s]{4,64})")
#: "I use dragon99! as my password", "hunter2 is the password".
_BEFORE = re.compile(r"([^\s\"'`,;:]{4,64})[\"'`]? (?:is|as|was|were|=) (?:my|the|our|his|her|their|your) (?:[\w-]{1,16} ){0,2}$")
_POSSESSED = re.compile(r"(?:is|as|was|were|=) (?:my|the|our|his|her|their|your) ")
_QUOTE = {"'": "'", '"': '"', "`": "`", "“": "”", "«": "»", "「": "」", "‘": "’", "„": "“"}
_TOKEN = re.compile(r"[^\s\"'`“”«»「」，。；、]{1,128}")
_ASCII_TOKEN = re.compile(r"[!-~]{3,128}")
_TRAILING = ".,;:!?)]}>"
_UNIT = re.compile(
    r"\d+(?:st|nd|rd|th|s|x|h|d|min|sec|days?|chars?|bits?|fa)"
    r"|(?:v|version|rfc|step|part|day|user|utf|sha|oauth|http|ipv|page)[-_]?\d[\d.]*",
    re.IGNORECASE,
)
_MEASURE = re.compile(r"\d{1,5}(?:[.,]\d{1,3})?(?:%|[a-z]{1,3})?", re.IGNORECASE)
_NEXT = re.compile(r"\s{0,2}(?:$|[\n.,;:!?)\]}\"'”»」|，。；&]|(?:and|but|so|for|on|if|please|can|now|und|aber|y|et|e|и|, )\b)")
#: A call, and a variable or method that holds one: `db.Column(…`, `hashed_password`, `pbkdf2:sha256`.
_CODE = re.compile(r"[A-Za-z_][\w.]*\(|pbkdf2:|bcrypt:|argon2")
_SPOKEN = re.compile(r"[a-z_.]*(?:password|passwd|pwd|hash)(?:_[a-z_]+)?", re.IGNORECASE)
_TYPED = re.compile(r"\s{0,2}(?:=\s|\|\s{0,2}[A-Z(]|\[)")
_PHRASE = re.compile(r"[a-z]{2,12}(?:[ -][a-z]{2,12}){2,7}", re.IGNORECASE)

#: user:password@host in any address.
_USERINFO = re.compile(r"[^\s/?#@:\"'<>`]{0,128}:([^\s/@\"'<>`]{1,256})@(?=[\w\[(])")
#: A hash of a password, as systems keep it.
_CRYPT = re.compile(r"\$(?:2[abxy]?|5|6|y|1|apr1|argon2(?:id|i|d)|scrypt|pbkdf2-sha\d+)\$[A-Za-z0-9./$,=+-]{20,300}")
_CURL = re.compile(r"(?:curl|wget|http|https)\b[^\n|;]{0,200}?\s(?:-u|--user)[ =][\"']?[^\s:\"']{1,64}:([^\s\"']{1,128})")
_DOCKER = re.compile(r"(?:docker|podman|helm|nerdctl|oc|crane)\b[^\n|;]{0,120}?login[^\n|;]{0,80}?\s-p[ =][\"']?([^\s\"']{3,128})")
_MYSQL = re.compile(r"(?:mysql|mysqldump|mysqladmin|mariadb)\b[^\n|;]{0,120}?\s-p[\"']?([^\s\"'-][^\s\"']{2,127})")
_SSHPASS = re.compile(r"sshpass\s{1,3}-p\s{0,3}[\"']?([^\s\"']{2,128})")
_FLAG = re.compile(r"--?(?:password|passwd|pass|pwd)[ =][\"']?([^\s\"'-][^\s\"']{2,127})")
#: "credentials: admin / hunter2", "login: bob:Tr0ub4dor", "user admin pass hunter2".
_PAIR = re.compile(
    r"(?:credentials?|creds|log-?in|log in|sign in|username|user|account|логин|用户名|账号|帐号)s?(?![a-z])(?: details| name)?"
    r"(?:\s(?:is|are|with|as|for [\w. -]{1,30}?))?\s{0,2}[:=：]?\s{0,2}[\"'`]?([^\s\"'`/,;:=]{2,64})[\"'`]?"
    r"\s{0,2}(?:/|:|\||,? (?:and |with )?(?:the )?(?:password|pass|pw|pwd)(?: is)?\s?[:=]?|密码[:：]?)\s{0,2}[\"'`]?([^\s\"'`,;]{4,64})",
    re.IGNORECASE,
)


#: What stands before "/" and is no user: addresses, words, and sites, after which the user's own name comes.
_NO_USERS = frozenset(
    "http https or and github gitlab bitbucket twitter x instagram facebook telegram reddit linkedin tiktok wechat".split()
)

_COMMANDS = (
    ("-u", _CURL),
    ("--user", _CURL),
    ("-p", _MYSQL),
    ("login", _DOCKER),
    ("sshpass", _SSHPASS),
    ("--pass", _FLAG),
    ("-pass", _FLAG),
)


def find_passwords(text: str, low: str) -> Iterator[Found]:
    """Passwords; *low* is the text in lower case."""
    if any(hint in low for hint in HINTS):
        for name, alone in NAMES:
            if name in low:
                yield from _after_name(text, low, name, alone)
    if "://" in text:
        yield from _in_addresses(text)
    if "$" in text:
        yield from (Found(*match.span(), Kind.PASSWORD) for match in _CRYPT.finditer(text))
    for needle, pattern in _COMMANDS:
        if needle in text:
            yield from _on_command_lines(text, needle, pattern)
    if any(word in low for word in WHO):
        yield from _pairs(text)


def _after_name(text: str, low: str, name: str, alone: bool) -> Iterator[Found]:
    done = 0
    for at in places(low, name):
        end = at + len(name)
        if at < done or (alone and _in_word(low, at, end)):
            continue
        match = _AFTER.match(low, end, end + 320)
        if match is not None and match["said"] and text[at - 1 : at] in ("'", '"', "`") and text[at - 1 : at] == text[end : end + 1]:
            match = None  # the word itself is spoken of
        found = None if match is None else _value(text, match.end(), name, clear=match["clear"] is not None, table=match["clear"] == "|")
        if found is None and (match := _BARE.match(text, end)) is not None:
            found = _chosen(_value(text, match.end(), name, clear=True), text, name)
        if (before := _before(text, at)) is not None:  # what follows may speak of another
            yield before
        if found is not None:
            done = found.end
            yield found


def _chosen(found: Found | None, text: str, name: str) -> Found | None:
    """*found* where it looks chosen: letters and digits, or, after a name that is used of numbers, digits."""
    if found is None:
        return None
    value = text[found.start : found.end]
    if text[found.start - 1] in _QUOTE and " " in value:
        return found
    if "(" in value:
        return None
    digits, letters = any(map(str.isdigit, value)), any(map(str.isalpha, value))
    numeric = value.isdigit() and 4 <= len(value) <= 10 and (name == "passcode" or ord(name[0]) > 0x2E80)
    return found if numeric or (digits and letters and len(value) >= 6 and not _UNIT.fullmatch(value)) else None


def _before(text: str, at: int) -> Found | None:
    """The password that stands before its name."""
    if text[at - 1 : at] != " " or not _POSSESSED.search(text, max(0, at - 44), at):
        return None
    start = max(0, at - 110)
    match = _BEFORE.search(text[start:at])
    if match is None:
        return None
    value = match[1]
    if is_stand_in(value) or value.lower() in ABOUT or not any(map(str.isdigit, value)) or not any(map(str.isalpha, value)):
        return None
    return Found(start + match.start(1), start + match.end(1), Kind.PASSWORD)


def _in_word(low: str, at: int, end: int) -> bool:
    before, after = low[at - 1 : at], low[end : end + 1]
    return before.isalpha() or (after.isalpha() and after.isascii())


def _value(text: str, at: int, name: str, *, clear: bool, table: bool = False) -> Found | None:
    """The password that begins at *at*. *clear*: after `:` or `=`; *table*: in the cell that follows, where headings stand, too."""
    if at >= len(text):
        return None
    close = _QUOTE.get(text[at])
    if close is not None:
        end = text.find(close, at + 1, at + 130)
        inner = text[at + 1 : end] if end > 0 else ""
        if inner.strip() and "\n" not in inner:
            return None if _CODE.match(inner) or is_stand_in(inner) or inner.lower() in ABOUT else Found(at + 1, end, Kind.PASSWORD)
        at += 1
    ascii_only = ord(name[0]) > 0x2E80
    match = (_ASCII_TOKEN if ascii_only else _TOKEN).match(text, at)
    if match is None:
        return None
    raw = match.group()
    value = raw.rstrip(_TRAILING) if not ascii_only else raw.rstrip(".,;")
    if len(value) < len(raw) and raw[len(value)] in "!?" and any(c.isdigit() for c in value):
        value = raw.rstrip(".,;:)]}>")  # "hunter2!" ends in it as likely as the sentence does
    if value.startswith("[masked:") or not value:
        return None
    cut = min((place for sign in "&;|<" if (place := value.find(sign)) > 0 and clear), default=len(value))
    value = value[:cut]
    end = at + len(value)
    if name.startswith("pin"):
        postal = len(value) == 6 and (clear or name != "pin")  # India's "pin code" is one
        return Found(at, end, Kind.PASSWORD) if re.fullmatch(r"\d{4,8}", value) and not postal else None
    if name == "pass" and _MEASURE.fullmatch(value):
        return None  # of mountains, tests and trains
    if name in ("passphrase", "pass phrase") and (phrase := _PHRASE.match(text, at)) is not None and _is_phrase(phrase.group()):
        return Found(at, phrase.end(), Kind.PASSWORD)
    if table and not any(map(str.isdigit, value)):
        return None
    return Found(at, end, Kind.PASSWORD) if _is_password(text, value, end) else None


def _is_phrase(words: str) -> bool:
    """Whether words are chosen, and do not say something about a passphrase."""
    found = words.lower().replace("-", " ").split()
    return 2 * sum(word in ABOUT for word in found) < len(found)


def _is_password(text: str, value: str, end: int) -> bool:
    small = value.lower()
    if len(value) < 3 or is_stand_in(value) or small in ABOUT or small.startswith(STARTS):
        return False
    if text[end : end + 1] in ("(", "["):
        return False  # a call
    if _CODE.match(value) or _SPOKEN.fullmatch(value):
        return False
    if value.isidentifier() and _TYPED.match(text, end):
        return False  # the type of a field
    if not any(character.isascii() and character.isalnum() for character in value) and not any(c.isdigit() for c in value):
        return False
    if "." in value[1:-1] and re.fullmatch(r"[a-z_]+(?:\.[a-z_]+)+", value):
        return False  # user.password
    made = any(c.isdigit() for c in value) or (any(c in "!@#$%^&*+=?~" for c in value) and len(value) >= 5)
    made = made or any(a.islower() and b.isupper() for a, b in pairwise(value))
    if made and not re.fullmatch(r"\d{1,3}(?:[-+]?\d{0,3})?", value):
        return True
    if re.fullmatch(r"\d+\S*", value):
        return len(value) >= 4
    # a plain word: it has to be all that is said
    return _NEXT.match(text, end) is not None and len(value) >= 4 and value.replace("-", "").replace("_", "").isalnum()


def _in_addresses(text: str) -> Iterator[Found]:
    for at in places(text, "://"):
        match = _USERINFO.match(text, at + 3)
        if match is not None and not is_stand_in(match[1]) and match[1] != "[masked":
            yield Found(*match.span(1), Kind.PASSWORD)


def _on_command_lines(text: str, needle: str, pattern: re.Pattern[str]) -> Iterator[Found]:
    for line_start, line in _lines_with(text, needle):
        for match in pattern.finditer(line):
            value = match[1]
            if not is_stand_in(value) and value.lower() not in ABOUT:
                yield Found(line_start + match.start(1), line_start + match.end(1), Kind.PASSWORD)


def _lines_with(text: str, needle: str) -> Iterator[tuple[int, str]]:
    """Lines that have *needle*, up to 2000 characters of each from a little before it."""
    done = 0
    for at in places(text, needle):
        if at < done:
            continue
        start = max(text.rfind("\n", max(0, at - 400), at) + 1, at - 400, done, 0)
        end = text.find("\n", at)
        done = min(len(text) if end < 0 else end, at + 1600)
        yield start, text[start:done]


def _pairs(text: str) -> Iterator[Found]:
    for match in _PAIR.finditer(text):
        user, value = match[1], match[2].rstrip(".,;)")
        if is_stand_in(value) or value.lower() in ABOUT or user.lower() in _NO_USERS or value.startswith("//"):
            continue
        if any(c.isdigit() for c in value) and any(c.isalpha() for c in value) and "/" not in value:
            yield Found(match.start(2), match.start(2) + len(value), Kind.PASSWORD)
