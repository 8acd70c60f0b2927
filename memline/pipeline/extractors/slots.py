"""Which single-valued question a fact answers, if any: the newest answer of a slot is the current one.

A slot is "<subject>|<question>", both lower case ("user|live", "melanie|work", "user|locker code"); 用户 is "user". A wrong slot hides a
true memory, a missing one only leaves an old memory beside the new: whatever is not plainly a statement of how things are now (negated,
planned, past, wished for, guessed, one of several) has none.
"""

from __future__ import annotations

import re

from memline.pipeline.extractors.slots_chinese import slot_of_chinese
from memline.pipeline.extractors.word_list import words

__all__ = ["slot_of"]

_NAME = r"[A-Z][\w’'-]{0,30}(?: [A-Z][\w’'-]{0,30}){0,2}"
_PLACE = r"[A-ZÀ-Þ][\w’'.-]*(?:,? (?:[A-ZÀ-Þ][\w’'.-]*|of|the|de|la|del|do|da|am|an|der|upon|on)){0,5}"
_NOW = r"(?:now |currently |just |recently |finally |has |has just |has now |has recently )?"
_PLACE_TAIL = r"(?: (?:now|currently|these days|at the moment|since (?:\w+ )?\d{4}|since last \w+))?"
_MOVE_TAIL = r"(?: (?:yesterday|today|recently|(?:last|this) (?:week|weekend|month|year|spring|summer|autumn|fall|winter)))?"

_LIVES = re.compile(rf"(?P<subject>{_NAME}) (?:now |currently )?(?:lives|resides|is living|is based) in (?P<value>{_PLACE}){_PLACE_TAIL}")
_MOVED = re.compile(
    rf"(?P<subject>{_NAME}) {_NOW}(?:moved|relocated)(?: from {_PLACE})? to (?P<value>{_PLACE})(?: from {_PLACE})?{_MOVE_TAIL}"
)
_WORKS = re.compile(
    rf"(?P<subject>{_NAME}) (?:(?:now |currently )?(?:works|is working|is employed) (?:at|for|by)"
    rf"|{_NOW}(?:started|began) (?:work|working|to work|a job|a new job) (?:at|with|for)|{_NOW}got a (?:new )?job (?:at|with))"
    rf" (?P<value>{_PLACE}(?: & [A-Z]\w*)?)(?: as (?:an?|the|their) [\w /-]{{1,60}})?{_PLACE_TAIL}"
)
_JOINED = re.compile(
    rf"(?P<subject>{_NAME}) {_NOW}joined (?P<value>{_PLACE}?(?: & [A-Z]\w*)?)"
    r"(?P<proof>(?<=Inc|Ltd|LLC)\.?|(?<=GmbH|Corp)\.?| as (?:an?|the|their) [\w /-]{1,60})"
)
_OWNS = re.compile(
    rf"(?P<subject>{_NAME})['’]s (?P<label>(?:(?!(?:has|was|been) )[\w-]+(?:['’]s)? ){{0,4}}(?!(?:has|was|been) )[\w-]+) "
    r"(?P<verb>is now|is|has changed to|has been changed to|was changed to|changed to) (?P<value>.{1,160})"
)
_THE = re.compile(
    r"The (?P<label>(?:(?!(?:has|was|been) )[\w-]+ ){2,4}(?!(?:has|was|been) )[\w-]+) "
    r"(?P<verb>is now|is|has changed to|has been changed to|was changed to|"
    r"changed to) (?P<value>.{1,160})"
)
_APPOINTMENT = re.compile(
    rf"(?P<subject>{_NAME})['’]s (?P<label>(?:[\w-]+ ){{1,3}}(?:meeting|appointment|interview|check-?up)|(?:meeting|appointment|"
    rf"interview|call) with (?:Dr\.? )?{_NAME})"
    r" (?:is|is now|is scheduled|is set|has been moved|was moved|has been rescheduled|was rescheduled|moved|got moved)(?: now)? (?:at|"
    r"on|for|to) (?P<value>.{1,80})"
)

#: Anything that makes it something else than how things plainly are.
_DOUBT = re.compile(
    r"\b(?:not|never|no longer|neither|nor|none|used to|if|unless|would|could|might|may|should|wish(?:es)?|hopes?|hoping|wants?|"
    r"plans?|planning|going to|will|"
    r"consider(?:s|ing)?|thinking|thinks?|believes?|guess(?:es)?|maybe|probably|perhaps|almost|nearly|formerly|previously|originally|"
    r"until|before|when|while|once|"
    r"temporarily|for now|or|either|asks?|asked|said|says|told|heard|dreams?|imagin\w+|pretend\w*|supposed|apparently|also|too|again|"
    r"part[- ]time|"
    r"sometimes|usually|often|both|another|second|somewhere|anywhere|but|except|instead|than|as if|like)\b|n['’]t\b|\?",
    re.IGNORECASE,
)
_NO_SUBJECT = words(
    "i you he she it we they this that these those there here the a an my your his her its our their everyone everybody everything "
    "nobody no "
    "someone somebody anyone anybody people who what which where when how one some many most all none both each every another others "
    "assistant "
    "and but so or if because since although however also then now maybe yes today tomorrow yesterday in on at for with from as"
)
_NO_PLACE = words(
    "python java javascript typescript rust go golang ruby php kotlin swift scala slack teams discord telegram whatsapp signal linux "
    "windows mac macos ubuntu debian "
    "fedora android ios vim neovim emacs vscode notion obsidian jira linear trello asana docker kubernetes postgres postgresql mysql "
    "sqlite mongodb redis "
    "react vue angular svelte django flask rails aws azure gcp github gitlab bitbucket firefox chrome safari spotify netflix gmail "
    "outlook zoom "
    "sales marketing engineering finance product support operations research design legal hr management monday tuesday wednesday "
    "thursday friday "
    "saturday sunday january february march april may june july august september october november december plan tier level version "
    "stage phase room "
    "floor desk row seat chapter part step team group"
)
#: A country and a city of it are both true: they have slots of their own.
_COUNTRIES = words(
    "germany|france|spain|italy|portugal|austria|switzerland|belgium|the netherlands|netherlands|holland|denmark|sweden|norway|"
    "finland|iceland|ireland|england|scotland|"
    "wales|the uk|uk|the united kingdom|united kingdom|great britain|poland|czechia|the czech republic|slovakia|hungary|romania|"
    "bulgaria|greece|turkey|ukraine|russia|"
    "serbia|croatia|slovenia|estonia|latvia|lithuania|the usa|usa|the us|the united states|united states|america|canada|mexico|brazil|"
    "argentina|chile|colombia|peru|"
    "china|japan|korea|south korea|india|pakistan|bangladesh|indonesia|malaysia|thailand|vietnam|the philippines|philippines|taiwan|"
    "australia|new zealand|"
    "egypt|morocco|nigeria|kenya|ethiopia|south africa|ghana|tanzania|israel|iran|iraq|saudi arabia|the uae|uae|qatar|europe|asia|africa|"
    "south america|north america|california|texas|florida|bavaria|ontario|quebec|tuscany|andalusia",
    "|",
)

_CODE_HEADS = frozenset(["code", "pin", "passcode", "combination", "extension"])
_NUMBER_LABELS = frozenset(
    [
        "phone number",
        "phone",
        "mobile number",
        "mobile",
        "cell",
        "cell number",
        "telephone number",
        "work phone",
        "work phone number",
        "home phone",
        "home phone number",
        "flight number",
        "locker number",
        "room number",
        "passport number",
        "customer number",
        "member number",
        "membership number",
        "account number",
        "policy number",
        "employee number",
        "employee id",
        "student id",
        "student number",
        "license plate",
        "licence plate",
        "zip code",
        "postcode",
        "postal code",
        "seat number",
        "desk number",
        "apartment number",
        "office number",
        "tax number",
        "tax id",
        "shoe size",
    ]
)
_ADDRESS_LABELS = frozenset(
    ["address", "home address", "work address", "office address", "postal address", "mailing address", "shipping address"]
)
_EMAIL_LABELS = re.compile(r"(?:(?:work|home|private|personal|school|university|office) )?e-?mail(?: address)?")
_NAME_LABELS = frozenset(["name", "full name", "first name", "last name", "surname", "family name", "middle name", "nickname"])
_BIRTHDAYS = frozenset(["birthday", "date of birth", "birth date", "birthdate"])
_SINGLE_KIN = words("wife's husband's mother's mom's mum's father's dad's boss's partner's spouse's")
_NOT_THE_ONE = words(
    "old previous former last first second third other another backup temporary next original future ex one-time verification "
    "confirmation tracking order ticket "
    "error source discount promo coupon reference case invoice booking status exit country area dress bar qr zip morse color colour "
    "hex html css python java "
    "sample test default example git build sort genetic invite referral activation status"
)
_FAVOURITE = re.compile(r"(?:all-time )?(?:favou?rite) (?P<what>(?:[\w-]+ ){0,2}[\w-]+)")
_NO_FAVOURITE = words("thing things part parts one ones memory moment time way place spot people bit aspect activity person")
_SINCE_WHEN = re.compile(r"(?<! for),? (?:now|these days|from now on|as of (?:now|today))$")
_NO_VALUE = re.compile(
    r"(?:not|no longer|still|probably|maybe|always|about|being|getting|going|gone|too|very|so|really|quite|hard|easy|one of|either|"
    r"both|when|because|that|"
    r"to|in|on|from|something|anything|different|the same|unknown|wrong|expired|private|secret|changing|any|all|between|among|up|as|"
    r"by|for|like|whatever|mine|yours|"
    r"missing|lost|broken|almost|usually|sometimes|often|now a|coming|having|what|how|who)\b",
    re.IGNORECASE,
)
_CODE_VALUE = re.compile(
    r"(?:[\"'“‘]?[\w#*+()/.\-]*\d[\w#*+()/.\-]*[\"'”’]?)(?: [\w#*+()/.\-]*\d[\w#*+()/.\-]*){0,5}|[A-Z]{1,4}(?: ?-? ?\d[\w-]*)+|"
    r"[\"“‘'][^\"“”]{1,60}[\"”’']"
)
_PASSWORD_VALUE = re.compile(r"[\"“‘'][^\"“”]{1,80}[\"”’']|(?=\S*[\d!@#$%^&*_+=-]|\S+[A-Z])\S{4,80}")
_EMAIL_VALUE = re.compile(r"[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,8}")
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|sept|oct|nov|dec)[a-z]{0,6}\.?"
_DATE_VALUE = re.compile(
    rf"(?:on )?(?:the )?(?:{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?(?:,? \d{{4}})?|\d{{1,2}}(?:st|nd|rd|"
    rf"th)?(?: of)? {_MONTH}(?:,? \d{{4}})?|\d{{4}}-\d\d-\d\d|\d{{1,2}}[./]\d{{1,2}}(?:[./]\d{{2,4}})?)",
    re.IGNORECASE,
)
_NAME_VALUE = re.compile(r"[A-ZÀ-Þ][\w’'.-]*(?: (?:[A-ZÀ-Þ][\w’'.-]*|de|van|von|der|la|del|bin|al)){0,4}")
_ADDRESS_VALUE = re.compile(r"(?=.*\d)(?:\d|[A-ZÀ-Þ]).{3,150}")
_CLOCK = re.compile(r"\d{1,2}(?::\d{2})?(?: ?[ap]\.?m\.?)?|noon|midnight", re.IGNORECASE)
_DAY = re.compile(
    rf"(?:next |this )?(?:mon|tues|wednes|thurs|fri|satur|sun)day\b|(?:the )?\d{{1,2}}(?:st|nd|rd|th)\b|{_MONTH} \d|"
    rf"\d{{1,2}} {_MONTH}|\d{{4}}-\d\d|tomorrow|today",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"(?<!\bSt)(?<!\bDr)(?<!\bMt)[.!]\s+[A-Z\d\"]|\n|;\s")


def slot_of(text: str) -> str | None:
    """The slot of a fact's text, or None; see the module."""
    text = text.strip()
    if not text or len(text) > 300:
        return None
    chinese = slot_of_chinese(text)
    if chinese is not None:
        return chinese
    text = re.sub(r"(?<=[\w)\"”'’])[.!]+$", "", text)
    if text.endswith("?") or _SENTENCE_END.search(text):
        return None
    return _of_place(text) or _of_work(text) or _of_label(text)


def _subject(found: re.Match[str]) -> str | None:
    name = found.group("subject")
    words = name.replace("’", "'").lower().split()
    if words[0] in _NO_SUBJECT or any(word.endswith("'s") for word in words) or words[-1] in ("and", "or"):
        return None
    return " ".join(words)


def _of_place(text: str) -> str | None:
    found = _LIVES.fullmatch(text) or _MOVED.fullmatch(text)
    if found is None or _DOUBT.search(text):
        return None
    subject, value = _subject(found), found.group("value")
    if subject is None or " and " in value:
        return None
    if found.re is _MOVED and (
        any(c.isdigit() for c in value)
        or any(word.lower().strip(",.") in _NO_PLACE or re.search(r"[a-z][A-Z]", word) for word in value.split())
    ):
        return None
    if found.re is _MOVED and value.isupper() and value.lower() not in _COUNTRIES:
        return None
    return f"{subject}|live country" if value.lower().strip(".") in _COUNTRIES else f"{subject}|live"


def _of_work(text: str) -> str | None:
    found = _WORKS.fullmatch(text) or _JOINED.fullmatch(text)
    if found is None or _DOUBT.search(text):
        return None
    subject = _subject(found)
    value = found.group("value").lower().split()
    days = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday", "christmas", "easter")
    return f"{subject}|work" if subject and value and value[0].strip(",") not in days else None


def _of_label(text: str) -> str | None:
    found = _APPOINTMENT.fullmatch(text)
    if found is not None:
        return _of_appointment(found)
    found = _OWNS.fullmatch(text)
    subject: str | None = "the"
    if found is not None:
        subject = _subject(found)
    elif (found := _THE.fullmatch(text)) is None or "of" in found.group("label").split():
        return None
    label = found.group("label").replace("’", "'").lower()
    value = _SINCE_WHEN.sub("", found.group("value"))
    if (
        subject is None
        or _DOUBT.search(label)
        or _NO_VALUE.match(value.removeprefix("on ") if label in _BIRTHDAYS else value)
        or re.search(r"\b(?:no longer|or|but|if|unless|until|and)\b", _outside_quotes(value))
    ):
        return None
    label = re.sub(r"^(?:new|current|actual) ", "", label)
    question = _question(label, value)
    if question is None or (subject == "the" and not (question.split()[-1] in _CODE_HEADS or question.endswith("password"))):
        return None
    return f"{subject}|{question}"


def _question(label: str, value: str) -> str | None:
    """The question that a label asks, if *value* is an answer to it."""
    words = label.split()
    if any(word.endswith("'s") and word not in _SINGLE_KIN for word in words):
        return None
    own = " ".join(word for word in words if not word.endswith("'s"))
    kin = "".join(f"{word} " for word in words if word.endswith("'s"))
    favourite = _FAVOURITE.fullmatch(own)
    if favourite is not None:
        return _favourite(kin, favourite.group("what"), value)
    if own in _NAME_LABELS:
        return kin + own if _NAME_VALUE.fullmatch(value) else None
    if _EMAIL_LABELS.fullmatch(own):
        return kin + re.sub(r"e-?mail(?: address)?", "email", own) if _EMAIL_VALUE.fullmatch(value) else None
    if own in _BIRTHDAYS:
        return kin + "birthday" if _DATE_VALUE.fullmatch(value) else None
    if own in _ADDRESS_LABELS:
        return kin + own if _ADDRESS_VALUE.fullmatch(value) and not _EMAIL_VALUE.fullmatch(value) else None
    if any(word in _NOT_THE_ONE for word in words) and own not in _NUMBER_LABELS:
        return None
    if own in _NUMBER_LABELS or (words[-1] in _CODE_HEADS and len(words) > 1) or own in ("pin", "pin code", "passcode"):
        number = {
            "phone number": "phone",
            "telephone number": "phone",
            "mobile number": "mobile",
            "cell number": "mobile",
            "cell": "mobile",
            "pin code": "pin",
        }
        return kin + number.get(own, own) if _CODE_VALUE.fullmatch(value) and not _is_measure(value) else None
    if words[-1] in ("password", "passphrase"):
        own = re.sub(r"\bwi-?fi\b|\bwlan\b", "wifi", own)
        return kin + own if _PASSWORD_VALUE.fullmatch(value) else None
    return None


def _is_measure(value: str) -> bool:
    return bool(re.fullmatch(r"\d+(?:st|nd|rd|th|%|k|x)|\d+-[a-z]+", value, re.IGNORECASE))


def _favourite(kin: str, what: str, value: str) -> str | None:
    words = what.split()
    if words[-1] in _NO_FAVOURITE or (
        words[-1].endswith("s") and not words[-1].endswith("ss") and words[-1] not in ("series", "tennis", "species")
    ):
        return None
    if any(word in ("so", "of", "about", "at", "in", "for", "to") for word in words) or len(value.split()) > 8 or ", " in value:
        return None
    return f"{kin}favourite {what.replace('color', 'colour').replace('flavor', 'flavour')}"


def _of_appointment(found: re.Match[str]) -> str | None:
    subject = _subject(found)
    label = found.group("label").lower().replace("’", "'")
    value = found.group("value")
    words = label.split()
    general = ("next", "first", "last", "second", "other", "another", "old", "previous", "weekly", "daily", "monthly", "every", "new")
    if subject is None or words[0] in general or any(word.endswith("'s") for word in words) or _DOUBT.search(value) or " and " in value:
        return None
    if _DAY.match(value):
        return f"{subject}|{label} day"
    if _CLOCK.fullmatch(value):
        return f"{subject}|{label} time"
    return None


def _outside_quotes(text: str) -> str:
    return re.sub(r"[\"“][^\"“”]*[\"”]", "", text)
