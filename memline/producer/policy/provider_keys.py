"""Keys that have a provider's shape: a prefix of its own, then so many characters of an alphabet."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import NamedTuple

from memline.contracts.policy import Kind
from memline.producer.policy.found import Found, places

__all__ = ["find_provider_keys"]


class _Shape(NamedTuple):
    #: Where one begins, to the letter.
    prefix: str
    #: What follows the prefix. Possessive or bounded, so that it is read once.
    rest: re.Pattern[str]
    #: A word that only looks alike has no digit in it.
    digit: bool = True


def _shape(prefix: str, rest: str, *, digit: bool = True) -> _Shape:
    return _Shape(prefix, re.compile(rest), digit)


_WORD = r"[A-Za-z0-9_-]"
_ALNUM = r"[A-Za-z0-9]"
_HEX = r"[0-9a-f]"

#: One line a kind of key; the provider's name where the prefix does not say it.
_SHAPES = (
    _shape("sk-", rf"{_WORD}{{20,}}+"),  # OpenAI, Anthropic, OpenRouter, DeepSeek, Langfuse
    _shape("sess-", rf"{_ALNUM}{{40,}}+"),
    *(_shape(prefix, r"[A-Z2-7]{16}(?![A-Za-z0-9])", digit=False) for prefix in ("AKIA", "ASIA", "ABIA", "ACCA")),  # AWS
    _shape("ABSK", r"[A-Za-z0-9+/]{100,}+={0,2}"),  # AWS Bedrock
    _shape("AIza", rf"{_WORD}{{30,}}+"),  # Google
    _shape("GOCSPX-", rf"{_WORD}{{20,}}+", digit=False),
    _shape("ya29.", rf"{_WORD}{{20,}}+"),
    _shape("1//0", rf"{_WORD}{{40,}}+"),  # Google's refresh tokens
    *(_shape(f"gh{letter}_", rf"{_ALNUM}{{30,}}+") for letter in "pousr"),  # GitHub
    _shape("github_pat_", r"[A-Za-z0-9_]{30,}+"),
    *(_shape(f"gl{name}-", rf"{_WORD}{{20,}}+(?:\.{_ALNUM}{{2,}}+)*+", digit=False)
      for name in ("pat", "dt", "rt", "cbt", "ptt", "ft", "soat", "agent", "imt")),  # GitLab
    *(_shape(f"xox{letter}-", rf"{_WORD}{{10,}}+") for letter in "abcdeoprs"),  # Slack
    _shape("xoxe.", rf"xox[bp]-{_WORD}{{10,}}+"),
    _shape("xapp-", rf"\d-{_WORD}{{20,}}+"),
    *(_shape(f"{kind}_{mode}_", rf"{_ALNUM}{{16,}}+") for kind in ("sk", "rk") for mode in ("live", "test", "prod")),  # Stripe, Clerk
    _shape("sk_", r"[0-9a-f]{40,}+"),
    _shape("HRKU-", rf"{_WORD}{{30,}}+"),  # Heroku
    _shape("pul-", rf"{_HEX}{{40}}(?![A-Za-z0-9])"),  # Pulumi
    _shape("whsec_", r"[A-Za-z0-9+/=]{24,}+"),
    _shape("SK", rf"{_HEX}{{32}}(?![A-Za-z0-9])"),  # Twilio
    _shape("SG.", rf"{_WORD}{{16,32}}\.{_WORD}{{30,}}+"),  # SendGrid
    _shape("key-", rf"{_HEX}{{32}}(?![A-Za-z0-9])"),  # Mailgun
    _shape("xkeysib-", rf"{_HEX}{{64}}-{_ALNUM}{{10,}}+"),  # Brevo
    _shape("npm_", rf"{_ALNUM}{{30,}}+"),
    _shape("pypi-", rf"{_WORD}{{40,}}+"),
    _shape("hf_", rf"{_ALNUM}{{28,}}+", digit=False),  # Hugging Face
    _shape("api_org_", rf"{_ALNUM}{{28,}}+", digit=False),
    *(_shape(prefix, rf"{_HEX}{{40,}}+") for prefix in ("dop_v1_", "doo_v1_", "dor_v1_")),  # DigitalOcean
    *(_shape(prefix, r"[0-9a-fA-F]{32,}+") for prefix in ("shpat_", "shpca_", "shppa_", "shpss_")),  # Shopify
    *(_shape(f"sq0{name}-", rf"{_WORD}{{20,}}+") for name in ("atp", "csp", "idp")),  # Square
    _shape("EAAA", rf"{_WORD}{{50,}}+"),
    _shape("EAAC", rf"{_ALNUM}{{60,}}+"),  # Meta
    _shape("dapi", rf"{_HEX}{{32}}(?:-\d)?(?![A-Za-z0-9])"),  # Databricks
    _shape("lin_api_", rf"{_ALNUM}{{30,}}+"),  # Linear
    _shape("secret_", rf"{_ALNUM}{{40,}}+"),  # Notion
    _shape("ntn_", rf"{_ALNUM}{{40,}}+"),
    _shape("gsk_", rf"{_ALNUM}{{40,}}+"),  # Groq
    _shape("r8_", rf"{_ALNUM}{{30,}}+"),  # Replicate
    _shape("xai-", rf"{_ALNUM}{{60,}}+"),
    _shape("pplx-", rf"{_ALNUM}{{40,}}+"),
    _shape("fw_", rf"{_ALNUM}{{20,}}+"),  # Fireworks
    _shape("nvapi-", rf"{_WORD}{{40,}}+"),
    _shape("tgp_v1_", rf"{_WORD}{{30,}}+"),  # Together
    _shape("jina_", rf"{_WORD}{{40,}}+"),
    _shape("pcsk_", r"[A-Za-z0-9_]{40,}+"),  # Pinecone
    _shape("lsv2_", r"(?:pt|sk)_[0-9a-f_]{30,}+"),  # LangSmith
    _shape("PMAK-", rf"{_HEX}{{20,}}+-{_HEX}{{20,}}+"),  # Postman
    *(_shape(prefix, rf"{_WORD}{{24,}}+") for prefix in ("hvs.", "hvb.", "s.hvs.")),  # Vault
    *(_shape(prefix, r"[A-Za-z0-9_=+/]{30,}+") for prefix in ("glsa_", "glc_")),  # Grafana
    _shape("NRAK-", r"[A-Z0-9]{24,}+"),  # New Relic
    *(_shape(prefix, r"[A-Za-z0-9_=+/]{40,}+") for prefix in ("sntrys_", "sntryu_")),  # Sentry
    _shape("ATATT3", r"[A-Za-z0-9_=-]{60,}+"),  # Atlassian
    _shape("ATCTT3", r"[A-Za-z0-9_=-]{60,}+"),
    _shape("figd_", rf"{_WORD}{{30,}}+"),
    _shape("sbp_", rf"{_HEX}{{40}}"),  # Supabase
    _shape("sb_secret_", rf"{_WORD}{{20,}}+"),
    _shape("pscale_tkn_", rf"{_WORD}{{30,}}+"),
    _shape("tskey-", rf"[a-z]{{3,12}}-{_WORD}{{20,}}+"),  # Tailscale
    _shape("dckr_pat_", rf"{_WORD}{{20,}}+"),
    _shape("rubygems_", rf"{_HEX}{{40,}}+"),
    _shape("bkua_", rf"{_HEX}{{40}}"),  # Buildkite
    _shape("CCIPAT_", rf"{_WORD}{{30,}}+"),  # CircleCI
    _shape("dp.pt.", rf"{_ALNUM}{{40,}}+"),  # Doppler
    _shape("ops_eyJ", rf"{_WORD}{{60,}}+"),  # 1Password
    _shape("sl.", rf"{_WORD}{{100,}}+"),  # Dropbox
    _shape("sk.eyJ", rf"{_WORD}{{20,}}+\.{_WORD}{{16,}}+"),  # Mapbox
    _shape("eyJ", rf"{_WORD}{{8,}}+\.{_WORD}{{8,}}+\.(?:{_WORD}{{8,}}+)?(?:\.{_WORD}++)*+"),  # JWT, signed or not; JWE
    _shape("FlyV1 ", r"fm2_[A-Za-z0-9+/=_,-]{40,}+"),
)  # fmt: skip

#: Those that have something before what tells them, which is looked for first: needle, how far back at most, the pattern.
_INSIDE = (
    (":AA", 12, re.compile(r"\d{8,10}:AA[A-Za-z0-9_-]{32,}+")),  # Telegram
    ("8Q~", 3, re.compile(r"[A-Za-z0-9_~.-]{3}8Q~[A-Za-z0-9_~.-]{31,}+")),  # Azure AD
    ("-us", 32, re.compile(r"[0-9a-f]{32}-us\d{1,2}(?!\w)")),  # Mailchimp
    (".atlasv1.", 14, re.compile(r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{50,}+")),  # Terraform
    ("hooks.slack.com/", 0, re.compile(r"hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9_/]{20,}+")),
    ("/api/webhooks/", 0, re.compile(r"/api/webhooks/\d{15,22}/[A-Za-z0-9_-]{40,}+")),  # Discord
    ("AccountKey=", 0, re.compile(r"AccountKey=[A-Za-z0-9+/]{40,}+={0,2}")),  # Azure
    ("SharedAccessKey=", 0, re.compile(r"SharedAccessKey=[A-Za-z0-9+/]{40,}+={0,2}")),
    ("&sig=", 0, re.compile(r"&sig=[A-Za-z0-9%+/_-]{40,}+={0,2}")),
    ("?sig=", 0, re.compile(r"\?sig=[A-Za-z0-9%+/_-]{40,}+={0,2}")),
)

#: Discord's bots: three parts, the first of which is a number in base64.
_DISCORD = re.compile(r"[MNO][A-Za-z0-9]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,38}(?![A-Za-z0-9_-])")
_DOTTED = re.compile(r"\.[A-Za-z0-9_-]{6}\.")

_BEARER = re.compile(r"bearer[ \t]{0,4}[:=]?[ \t]{1,4}[\"']?([A-Za-z0-9_.~+/-]{16,}+=*)", re.IGNORECASE)
_BASIC = re.compile(r"basic[ \t]{1,4}[\"']?([A-Za-z0-9+/]{8,}+={0,2})", re.IGNORECASE)


def find_provider_keys(text: str, low: str) -> Iterator[Found]:
    """Keys by their shape; *low* is the text in lower case."""
    for prefix, rest, digit in _SHAPES:
        if prefix in text:
            yield from _of_shape(text, prefix, rest, digit)
    for needle, back, pattern in _INSIDE:
        if needle in text:
            yield from _around(text, needle, back, pattern)
    if text.count(".") >= 2:
        yield from _discord(text)
    if "bearer" in low:
        yield from _after_word(text, low, "bearer", _BEARER)
    if "basic" in low:
        yield from (found for found in _after_word(text, low, "basic", _BASIC) if _is_basic(text[found.start : found.end]))


def _of_shape(text: str, prefix: str, rest: re.Pattern[str], digit: bool) -> Iterator[Found]:
    done = 0
    for at in places(text, prefix):
        if at < done or (at and _is_inside(text[at - 1])):
            continue
        match = rest.match(text, at + len(prefix))
        if match is None:
            continue
        done = match.end()
        if not digit or any(character.isdigit() for character in match.group()):
            yield Found(at, done, Kind.API_KEY)


def _around(text: str, needle: str, back: int, pattern: re.Pattern[str]) -> Iterator[Found]:
    done = 0
    for at in places(text, needle):
        if at < done:
            continue
        for start in range(max(done, at - back), at + 1):
            match = pattern.match(text, start, start + 600)
            if match is not None and match.end() > at:
                done = match.end()
                skip = len(needle) if needle.endswith("=") else 0
                yield Found(start + skip, done, Kind.API_KEY)
                break


def _discord(text: str) -> Iterator[Found]:
    done = 0
    for dots in _DOTTED.finditer(text):
        for start in range(max(done, dots.start() - 28), max(0, dots.start() - 23)):
            if text[start] in "MNO" and (match := _DISCORD.match(text, start)) is not None:
                done = match.end()
                yield Found(start, done, Kind.API_KEY)
                break


def _after_word(text: str, low: str, word: str, pattern: re.Pattern[str]) -> Iterator[Found]:
    for at in places(low, word):
        match = pattern.match(text, at)
        if match is not None and any(character.isdigit() for character in match[1]):
            yield Found(match.start(1), match.end(1), Kind.API_KEY)


def _is_basic(value: str) -> bool:
    """Whether it is `user:password` in base64, as the header has it."""
    if len(value) > 1000:
        return False
    try:
        return b":" in base64.b64decode(value + "=" * (-len(value) % 4), validate=True)
    except (binascii.Error, ValueError):
        return False


def _is_inside(character: str) -> bool:
    """Whether a key that follows *character* would begin in the middle of a word."""
    return character in "_-." or (character.isascii() and character.isalnum())
