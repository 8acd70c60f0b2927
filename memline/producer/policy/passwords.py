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

__all__ = ["find_passwords"]

#: What a password is called, in lower case. With "!": only as a word of its own.
_NAMES = (
    "password", "passwd", "passwort", "passphrase", "passcode", "pass phrase", "pwd!", "pw!", "pass!", "psw!", "psk!", "kennwort",
    "contraseña", "mot de passe", "senha", "wachtwoord", "hasło", "parola", "şifre", "lösenord", "adgangskode", "salasana", "heslo",
    "пароль", "пароля", "паролем", "密码", "密碼", "口令", "パスワード", "暗証番号", "비밀번호", "암호", "kata sandi", "mật khẩu", "รหัสผ่าน",
    "पासवर्ड", "كلمة المرور", "סיסמה", "pin!", "pin code!", "pin-code!",
)  # fmt: skip
_PLAIN = tuple((name.rstrip("!"), name.endswith("!")) for name in _NAMES)
_HINTS = tuple({name[:4] for name, _ in _PLAIN})

_WHERE = (
    r"(?:\s{1,3}(?:for|of|on|to|at|in|für|para|de|pour|di|от|для|to log into|i use for|we use for|that i use for)\s"
    r"(?:[\w.@'’/-]{1,40}\s){0,5}?[\w.@'’/-]{1,40}|\s{0,2}\([^()\n]{1,40}\)|\s(?:i|we|they|you)\s(?:\w{1,12}\s){0,2}?\w{1,12})?"
)
_CLEAR = r"(?P<clear>:=|=>|==?|->|→|:|：|＝)"
_SAID = (
    r"(?P<said>(?:\s(?:right now|today|again|at the moment))?\s(?:is|was|will be|has been|should be|to|are|ist|war|lautet|es|era|est|é|"
    r"является|стал|это|—|–|-)(?:\s(?:now|currently|still|set to|simply|just|jetzt|ahora|теперь))?\s|\s?[—–]\s|是|为|為|は|이|가|は、)"
)
_AFTER = re.compile(rf"(?:s\b|[_-](?:hash|string|value))?[\"'`\])]{{0,2}}{_WHERE}\s{{0,3}}(?:{_CLEAR}|{_SAID})(?P<gap>\s{{0,3}})")
_QUOTE = {"'": "'", '"': '"', "`": "`", "“": "”", "«": "»", "「": "」", "‘": "’", "„": "“"}
_TOKEN = re.compile(r"[^\s\"'`“”«»「」，。；、]{1,128}")
_ASCII_TOKEN = re.compile(r"[!-~]{3,128}")
_TRAILING = ".,;:!?)]}>"
_NEXT = re.compile(r"\s{0,2}(?:$|[\n.,;:!?)\]}\"'”»」|，。；&]|(?:and|but|so|for|on|if|please|can|now|und|aber|y|et|e|и|, )\b)")
_PHRASE = re.compile(r"[a-z]{2,12}(?:[ -][a-z]{2,12}){2,7}", re.IGNORECASE)

#: Words that say something about a password and are none.
_ABOUT = frozenset(
    """a an the my your our their his her its this that these those it they you we i not no never always too very so really quite only also
    still now again already being been set reset changed updated sent stored saved kept hashed encrypted salted protected hidden shown
    masked visible required needed mandatory optional missing empty blank null none unknown invalid valid wrong incorrect correct right
    weak strong stronger safe secure insecure secret simple complex easy hard difficult long short good bad bad. better best same different
    similar unique new old current temporary permanent expired expiring case sensitive case-sensitive written what which who where when why
    how in on at by for from with without under inside near there here about as if or and but because since until after before something
    anything nothing everything forgotten lost leaked compromised stolen exposed known shared managed generated random rotated due
    working broken failing rejected accepted refused denied locked disabled enabled supported ignored useless important private
    one two three four five six eight ten twelve at-least minimum maximum must should can may will cannot can't won't don't isn't
    reset. change update use using get log login access open unlock enter type remember confirm verify recover protect avoid prevent
    ask check choose create pick make keep store share send see find show hide forget manager managers policy field fields prompt box page
    screen link email mail form rules strength length history hint hints hash hashes expiry string int str text varchar char bool boolean
    integer number optional[str] var let const nein nicht falsch richtig vergessen incorrecta correcta olvidada faux oublié errada nova
    неверный неправильный слабый сложный забыт нужен обязателен my-password password passwd pass pwd user username root@localhost
    ok okay fine yes enough pretty kind sort based likely probably maybe perhaps going supposed able up down out off over per via like
    sms totp mfa otp bcrypt argon2 scrypt pbkdf2 md5 sha1 sha256 sha-256 cleartext plaintext utf-8""".split()
)
_STARTS = tuple("错不什多被很太需否谁必空忘要正有没用我你他这")

#: user:password@host in any address.
_USERINFO = re.compile(r"[^\s/?#@:\"'<>`]{0,128}:([^\s/@\"'<>`]{1,256})@(?=[\w\[(])")
#: A hash of a password, as systems keep it.
_CRYPT = re.compile(r"\$(?:2[abxy]?|5|6|y|1|apr1|argon2(?:id|i|d)|scrypt|pbkdf2-sha\d+)\$[A-Za-z0-9./$,=+-]{20,300}")
_CURL = re.compile(r"(?:curl|wget|http|https)\b[^\n|;]{0,200}?\s(?:-u|--user)[ =][\"']?[^\s:\"']{1,64}:([^\s\"']{1,128})")
_MYSQL = re.compile(r"(?:mysql|mysqldump|mysqladmin|mariadb)\b[^\n|;]{0,120}?\s-p[\"']?([^\s\"'-][^\s\"']{2,127})")
_SSHPASS = re.compile(r"sshpass\s{1,3}-p\s{0,3}[\"']?([^\s\"']{2,128})")
_FLAG = re.compile(r"--?(?:password|passwd|pass|pwd)[ =][\"']?([^\s\"'-][^\s\"']{2,127})")
#: "credentials: admin / hunter2", "login: bob:Tr0ub4dor", "user admin pass hunter2".
_PAIR = re.compile(
    r"(?:credentials?|creds|log-?in|log in|sign in|username|user|account|логин|用户名|账号|帐号)s?(?: details| name)?"
    r"(?:\s(?:is|are|with|as|for [\w. -]{1,30}?))?\s{0,2}[:=：]?\s{0,2}[\"'`]?([^\s\"'`/,;:=]{2,64})[\"'`]?"
    r"\s{0,2}(?:/|:|\||,? (?:and |with )?(?:the )?(?:password|pass|pw|pwd)(?: is)?\s?[:=]?|密码[:：]?)\s{0,2}[\"'`]?([^\s\"'`,;]{4,64})",
    re.IGNORECASE,
)

_WHO = ("credential", "creds", "login", "log in", "log-in", "sign in", "user", "account", "логин", "用户名", "账号", "帐号")


def find_passwords(text: str, low: str) -> Iterator[Found]:
    """Passwords; *low* is the text in lower case."""
    if any(hint in low for hint in _HINTS):
        for name, alone in _PLAIN:
            if name in low:
                yield from _after_name(text, low, name, alone)
    if "://" in text:
        yield from _in_addresses(text)
    if "$" in text:
        yield from (Found(*match.span(), Kind.PASSWORD) for match in _CRYPT.finditer(text))
    for needle, pattern in (("-u", _CURL), ("--user", _CURL), ("-p", _MYSQL), ("sshpass", _SSHPASS), ("--pass", _FLAG), ("-pass", _FLAG)):
        if needle in text:
            yield from _on_command_lines(text, needle, pattern)
    if any(word in low for word in _WHO):
        yield from _pairs(text)


def _after_name(text: str, low: str, name: str, alone: bool) -> Iterator[Found]:
    done = 0
    for at in places(low, name):
        end = at + len(name)
        if at < done or (alone and _in_word(low, at, end)):
            continue
        match = _AFTER.match(low, end, end + 320)
        if match is None:
            continue
        found = _value(text, match.end(), name, clear=match["clear"] is not None)
        if found is not None:
            done = found.end
            yield found


def _in_word(low: str, at: int, end: int) -> bool:
    before, after = low[at - 1 : at], low[end : end + 1]
    return before.isalpha() or (after.isalpha() and after.isascii())


def _value(text: str, at: int, name: str, *, clear: bool) -> Found | None:
    """The password that begins at *at*. *clear*: after `:` or `=`."""
    if at >= len(text):
        return None
    close = _QUOTE.get(text[at])
    if close is not None:
        end = text.find(close, at + 1, at + 130)
        inner = text[at + 1 : end] if end > 0 else ""
        if inner.strip() and "\n" not in inner:
            return None if is_stand_in(inner) or inner.lower() in _ABOUT else Found(at + 1, end, Kind.PASSWORD)
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
        return Found(at, end, Kind.PASSWORD) if re.fullmatch(r"\d{4,8}", value) and (len(value) != 6 or not clear) else None
    if name in ("passphrase", "pass phrase") and (phrase := _PHRASE.match(text, at)) is not None and value.lower() not in _ABOUT:
        return Found(at, phrase.end(), Kind.PASSWORD)
    return Found(at, end, Kind.PASSWORD) if _is_password(text, value, end, clear=clear) else None


def _is_password(text: str, value: str, end: int, *, clear: bool) -> bool:
    small = value.lower()
    if len(value) < 3 or is_stand_in(value) or small in _ABOUT or small.startswith(_STARTS):
        return False
    if text[end : end + 1] in ("(", "["):
        return False  # a call
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
            if not is_stand_in(value) and value.lower() not in _ABOUT:
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
        if is_stand_in(value) or value.lower() in _ABOUT or user.lower() in ("http", "https", "or", "and") or value.startswith("//"):
            continue
        if any(c.isdigit() for c in value) and any(c.isalpha() for c in value) and "/" not in value:
            yield Found(match.start(2), match.start(2) + len(value), Kind.PASSWORD)
