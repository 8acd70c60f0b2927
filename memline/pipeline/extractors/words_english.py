"""English words that the rules need to know: verbs whose form says nothing, adverbs, modals."""

from __future__ import annotations

from memline.pipeline.extractors.word_list import words

__all__ = [
    "ADVERBS",
    "COORDINATED",
    "FOLLOWS_VERB",
    "MODALS",
    "NOT_ADVERBS",
    "NOT_ED",
    "NOT_ING",
    "NOT_VERBS",
    "PARTICIPLES",
    "PAST",
    "agree",
]

#: Words that may stand between a subject and its verb, beside those in -ly.
ADVERBS = words(
    "also always never ever just still often sometimes seldom now already even only almost both all kinda sorta soon then once twice "
    "so too "
    "much mostly maybe perhaps quite rather again here currently myself ourselves themselves today honestly actually definitely not first "
    "finally back"
)
#: Verbs in -ly.
NOT_ADVERBS = words("apply fly rely reply supply multiply imply comply ally rally bully tally")
MODALS = words(
    "can could should will would may might must shall cannot can't couldn't shouldn't won't wouldn't mightn't mustn't shan't ought"
)
#: Words in -ed that are no past.
NOT_ED = words("need feed breed bleed speed proceed exceed succeed embed heed seed weed")
#: Words in -ing that are a base form.
NOT_ING = words("bring sing ring sting swing cling fling wring spring string sling ping")
#: Past forms, and verbs whose past looks like their present: left as they are.
PAST = words(
    "was were had did went saw got made took came bought brought thought taught caught fought sought found felt fell left kept slept wept "
    "lost met sat stood understood told sold held heard said paid laid led read fed bled fled sped spent sent lent bent built burnt learnt "
    "dreamt meant dealt knelt leapt spoke broke woke chose froze stole wrote rode drove rose drank sang rang sank began swam ran won "
    "hung dug "
    "stuck struck swung spun flew grew knew threw drew blew ate gave forgave forgot became overcame wore tore swore bore shook mistook lay "
    "lit shot slid hid bit shone woven wove ground bound wound put cut set let hit hurt cost quit shut split spread bet cast burst "
    "upset beat "
    "bid forecast broadcast wed rid shed fit used gotten misread withdrew outgrew underwent undertook rebuilt reread shrank sprang rewrote "
    "awoke foresaw unwound snuck dove been gone done"
)
#: Participles that make "I'd" mean "I had".
PARTICIPLES = words(
    "been better had gone done seen taken given known written eaten gotten forgotten become begun broken chosen driven fallen grown spoken "
    "thrown worn won met lost left found heard thought bought brought made kept told"
)
#: Words after "I" that are no verb of it.
NOT_VERBS = words(
    "and or but nor to in on at of for with from by as than the a an my your his her its our their that this these those if when while who "
    "whom whose which what where why how is are isn't aren't has hasn't does doesn't because since until though although about into over "
    "under after before during without within you he she it we they him them us me"
)
#: Base forms that are conjugated after "and": "I live in Bonn and work at …".
COORDINATED = words(
    "live work study have like love want need go play teach run drive speak hate own use prefer eat drink make take get know think feel "
    "enjoy keep try write read sing cook volunteer lead manage do come stay travel train swim hope plan"
)
#: A word of COORDINATED is a verb where one of these follows.
FOLLOWS_VERB = words(
    "a an the my our your his her its their to at in for on as with from about it him them that this these those two three four some many "
    "lots very really mostly every no not one been"
)

_IRREGULAR = {
    "am": "is",
    "have": "has",
    "haven't": "hasn't",
    "do": "does",
    "don't": "doesn't",
    "dont": "doesn't",
    "go": "goes",
    "undergo": "undergoes",
    "redo": "redoes",
    "echo": "echoes",
    "veto": "vetoes",
}
_SINGLE_S = words("focus bias canvas gas")


def agree(verb: str) -> str:
    """The third person singular of *verb* (lower case, a straight apostrophe), or *verb* itself where it has no other form.

    Rules of English spelling: -s, -es after a hiss, -ies for a consonant with y.
    """
    if verb in _IRREGULAR:
        return _IRREGULAR[verb]
    if not verb.isascii() or not verb.isalpha() or verb in MODALS or verb in PAST or verb in NOT_VERBS:
        return verb
    if verb.endswith("ed") and verb not in NOT_ED:
        return verb
    if verb.endswith("ing") and verb not in NOT_ING:
        return verb
    if verb.endswith(("ss", "sh", "ch", "x", "zz")) or verb in _SINGLE_S:
        return verb + "es"
    if verb.endswith("s"):
        return verb
    if verb.endswith("y") and len(verb) > 1 and verb[-2] not in "aeiou":
        return verb[:-1] + "ies"
    return verb + "s"
