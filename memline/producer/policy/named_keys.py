"""Keys by their name: `api_key = …`, "the access token is …", `?token=…`, `MY_SECRET=…`. The value has to look made, not written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from memline.contracts.policy import Kind
from memline.producer.policy.found import Found, entropy, is_stand_in, places

__all__ = ["find_named_keys", "find_near_keys"]

#: From the end of the name to the value: "s", quotes and brackets, "for the staging server", then what says that the value comes.
_LINK = (
    r"(?:s|_value|_string)?[\"'`\])]{0,2}\s{0,3}"
    r"(?:(?:for|of|to|on|from|in|we use|i use)\s(?:[\w.@'/-]{1,30}\s){0,4}?[\w.@'/-]{1,30}\s{0,2}|\([^()\n]{1,30}\)\s{0,2})?"
    r"(?::=|=>|==?|->|→|:|：|=|\||(?<=[\"'])\s?,\s?(?=[\"'])|\b(?:is|was|ist|lautet|es|est|é|è|er|är|jest|to|ay)\b|является|это|是|为|為|は|는|은"
    r"|[—–-]\s)\s{0,3}"
    r"(?:now |still |currently |called )?(?:str\s{0,2}=\s{0,2}|string\s{0,2}=\s{0,2})?(?:[bfr](?=[\"'`]))?[\"'`“”‘’«「]{0,3}"
)
_VALUE = r"([A-Za-z0-9_\-+/~.%$<{*]{6,512}={0,2})"
_NAMED = re.compile(_LINK + _VALUE)
#: "the token ab12…", without a word between.
_BARE = re.compile(r"\s[\"'`]?" + _VALUE)
_ENDS = frozenset(" \t\r\n\"'`&;,)]}>|<")
_RUN = re.compile(r"[A-Za-z0-9_\-+/~.%=]*+")
_CALL = re.compile(r"\s{0,1}[(\[]")

#: What stands before "key", "token" or "secret" and makes it one that opens something.
_OPENS = (
    "api", "access", "secret", "auth", "authentication", "authorization", "client", "private", "signing", "encryption", "bearer",
    "refresh",
    "session", "app", "application", "webhook", "service", "account", "admin", "master", "root", "shared", "subscription", "consumer",
    "jwt",
    "bot", "personal", "deploy", "deployment", "server", "oauth", "license", "storage", "integration", "read", "write", "id", "security",
    "openai", "anthropic", "azure", "aws", "google", "gemini", "github", "gitlab", "stripe", "twilio", "slack", "discord", "telegram",
    "mailgun", "sendgrid", "cohere", "mistral", "groq", "huggingface", "hf", "npm", "pypi", "heroku", "cloudflare", "datadog", "dd",
    "sentry", "algolia", "vercel", "netlify", "pinecone", "qdrant", "weaviate", "supabase", "firebase", "notion", "wandb", "django",
    "flask", "rails", "nextauth", "paypal", "shopify", "mapbox", "openweather", "elastic", "okta", "auth0", "plaid", "square", "database",
)  # fmt: skip
_OPENING = re.compile(rf"(?:^|[^a-z])(?:(?:{'|'.join(_OPENS)})[ _.\-]?){{1,3}}$")
#: What stands before "key" and makes it one that opens nothing.
_OTHER_KEY = re.compile(
    r"(?:public|primary|foreign|sort|partition|cache|redis|object|s3|hash|composite|unique|lookup|routing|idempotency|row|range|shard|index|"
    r"issue|jira|ticket|answer|translation|i18n|locale|dictionary|map|json|metadata|storage|tracking|registry|natural|surrogate|join|group|"
    r"csrf|hot|arrow|house|car|return|enter|escape|minor|major|piano|cancel|cancellation|next|page|pagination|continuation|sync|"
    r"device|registration|push|design|color|colour|lexer|syntax|unk|eos|pad|stop|special|max|min|num|total|per)[ _.\-]?$"
)
_WORDS = (
    "key",
    "token",
    "secret",
    "credential",
    "密钥",
    "密鑰",
    "令牌",
    "ключ",
    "токен",
    "schlüssel",
    "clave",
    "jeton",
    "webhook",
    "api",
    "llave",
    "chave",
)

#: "my Deepgram key", "our maps key": whose it is says that it opens something.
_OURS = re.compile(r"(?:^|[^a-z])(?:my|our|your) ?(?:\w{2,12} ?)?$")
#: Where keys are spoken of.
_NEAR = (
    "api key",
    "api-key",
    "api_key",
    "apikey",
    "token",
    "secret",
    "credential",
    "my key",
    "our key",
    "the key",
    "key's",
    "密钥",
    "令牌",
)
#: A random word that is not cut out of an address or path: letters and digits of both cases, 32 and more.
_LONG = re.compile(r"(?<![A-Za-z0-9_/+=.-])[A-Za-z0-9_-]{32,}+(?![A-Za-z0-9_/+=.-]*[/=])")
#: What a long random word is called that opens nothing.
_MADE_OF = re.compile(r"public|sha\d|hash|digest|checksum|commit|fingerprint|ssh-|integrity|[?&#/]\w{0,12}=?$|\bid[\"']?[:= ]|url|data:")

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_HEX = re.compile(r"[0-9a-f]+", re.IGNORECASE)
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_VERSION = re.compile(r"v?\d+(?:\.\d+)+(?:[-+.][A-Za-z0-9.]+)?")
_FILE = re.compile(r"\.[a-z][a-z0-9]{1,4}$", re.IGNORECASE)
_WORDY = re.compile(r"[A-Za-z]+(?:[-_./][A-Za-z]+)*")
_PLURAL_UNIT = re.compile(r"\d+[a-z]{0,2}$")


def find_named_keys(text: str, low: str) -> Iterator[Found]:
    """Keys by their name; *low* is the text in lower case."""
    for word in _WORDS:
        if word not in low:
            continue
        done = 0
        for at in places(low, word):
            if at < done:
                continue
            match = _NAMED.match(text, at + len(word)) or _BARE.match(text, at + len(word))
            if match is None:
                continue
            start, end = match.span(1)
            value = match[1].rstrip(".")
            if _CALL.match(text, end) or not _is_key(value, low, at, word, assigned="=" in text[at:start]):
                continue
            done = start + len(value)
            if end < len(text) and text[end] not in _ENDS:  # the rest of the run belongs to it
                done = _RUN.match(text, end).end()  # type: ignore[union-attr]  # it matches nothing, too
            yield Found(start, done, Kind.API_KEY)


def find_near_keys(text: str, low: str) -> Iterator[Found]:
    """Long random words close to where keys and tokens are spoken of, whatever stands between."""
    done = 0
    for at in sorted(place for word in _NEAR if word in low for place in places(low, word)):
        for match in _LONG.finditer(text, max(done, at - 120), at + 640):
            if match.start() > at + 120:
                break
            done = match.end()
            if _is_random(match.group(), low[max(0, match.start() - 40) : match.start()]):
                yield Found(*match.span(), Kind.API_KEY)
        done = max(done, at + 121)  # what begins before it was looked at


def _is_random(value: str, before: str) -> bool:
    kinds = (any(map(str.islower, value)), any(map(str.isupper, value)), any(map(str.isdigit, value)))
    return all(kinds) and entropy(value) >= 3.9 and _MADE_OF.search(before) is None


def _is_key(value: str, low: str, at: int, word: str, *, assigned: bool) -> bool:
    if is_stand_in(value) or _looks_otherwise(value):
        return False
    before = low[max(0, at - 18) : at]
    made = _made(value)
    if word == "key" and before and before[-1].isalpha() and not _OPENING.search(before):
        return False  # monkey, turkey, hotkey
    if _OPENING.search(before):
        return len(value) >= 8 and made >= 1 and (len(value) >= 12 or made >= 2)
    if _OTHER_KEY.search(before):
        return False
    if word == "key" and len(value) >= 24 and _OURS.search(before):
        return made >= 1
    if word == "api":
        return len(value) >= 20 and made >= 1 and entropy(value) >= 3.0
    if word == "key":
        return len(value) >= 20 and made >= 2 and (assigned or _HEX.fullmatch(value) is None) and _UUID.fullmatch(value) is None
    if word in ("token", "secret"):
        return len(value) >= 16 and made >= 1 and entropy(value) >= 3.0
    return len(value) >= 16 and made >= 1


def _made(value: str) -> int:
    """How much *value* looks made by a machine: 0 written, 1 with letters and digits, 2 with both cases of letters, too, or random."""
    digits = sum(character.isdigit() for character in value)
    letters = sum(character.isalpha() for character in value)
    upper = sum(character.isupper() for character in value)
    if not letters:
        return 0
    mixed = 0 < upper < letters
    if not digits:
        # without a digit: only what no word looks like
        inner = sum(a.islower() and b.isupper() for a, b in pairwise(value))
        return 1 if len(value) >= 20 and mixed and inner >= 4 else 0
    if _WORDY.fullmatch(value.rstrip("0123456789").rstrip("-_.")) and digits <= 4 and not (mixed and len(value) >= 16):
        return 0  # a name with a number: staging-2, user_profile_v2, sha256
    return 2 if mixed or entropy(value) >= 3.2 else 1


def _looks_otherwise(value: str) -> bool:
    """A date, a version, a file or path, a number with a unit."""
    return (
        _DATE.match(value) is not None
        or _VERSION.fullmatch(value) is not None
        or (_FILE.search(value) is not None and ("/" in value or value.count(".") == 1))
        or _PLURAL_UNIT.fullmatch(value) is not None
    )
