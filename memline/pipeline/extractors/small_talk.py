"""Small talk by its words: a short sentence in which every word is one of those that carry courtesy and no fact, whatever their order.

The phrases of `pleasantries` are what people say most; this is for the rest ("You've been so helpful", "Great minds think alike").
"""

from __future__ import annotations

import re

from memline.pipeline.extractors.spans import plain
from memline.pipeline.extractors.word_list import words

__all__ = ["is_small_talk"]

#: More words say something.
_MOST = 9

_COURTEOUS = words(
    "you your yours you're you've you'd you'll u it it's its that that's this these those they there here what what's how how's why "
    "who which is are was were be been being do does did don't doesn't didn't will would won't wouldn't can can't cannot could "
    "couldn't should must may might let let's get got go goes going come know see seen saw mean means meant think thought hope hoping "
    "hopefully wish wishing feel felt hear heard say said tell talk talking chat chatting speak speaking ask asking answer answers "
    "answered help helps helped helpful helping try trying thank thanks thankful appreciate appreciated welcome sorry apologies "
    "apologize apologise excuse pardon please hi hey hello hiya good great nice lovely wonderful amazing awesome fantastic perfect "
    "excellent brilliant cool sweet kind kinder kindest fun funny bad hard tough rough sad happy glad pleased proud grateful "
    "delighted sure right true fine ok okay alright well better best much many lot lots so very really too just always again still "
    "ever even more most all any some everything anything nothing something one ones day morning afternoon evening night weekend week "
    "time today tomorrow soon later now then around back long while ago first last next another other not no nope yes yeah yep yup "
    "and or but if as of to for with at in on about from up out by than like busy new surprise idea plan point question questions "
    "reply response message luck trouble problem problems worries worry mind minds way thing things deal chance moment second minute "
    "bit little kindness patience understanding alike agree agreed wow oh ah aw aww haha lol hmm mm mm-hmm uh huh yay hooray congrats "
    "congratulations totally absolutely definitely exactly certainly indeed pretty quite truly super such a an the enough bother "
    "bothering wonder wondering curious interesting impressive incredible beautiful gorgeous adorable cute hilarious inspiring "
    "exciting excited ahead forward keep bye goodbye late meeting meet"
)
_FIRST = words("i i'm i've i'd i'll me my mine we we're we've we'd we'll us our ours")
#: With one of these what is said in the first person is courtesy, too.
_TO_YOU = words(
    "you your you're you've thank thanks thankful appreciate sorry apologies apologize apologise hope wish hoping mean agree grateful"
)
#: What somebody plans or does, however few words it takes.
_PLANS = words("tomorrow today tonight weekend week morning afternoon evening night going go try trying new busy")
_WORDS = re.compile(r"[^\W_]+(?:['-][^\W_]+)*")
_NAMED = re.compile(r"(?<=[\w,;] )[A-Z](?!\b)")


def is_small_talk(sentence: str) -> bool:
    """Nothing in *sentence* (English) but courtesies."""
    if len(sentence) > 80 or _NAMED.search(sentence) is not None:
        return False
    found = _WORDS.findall(plain(sentence))
    if not 2 <= len(found) <= _MOST:
        return False
    own = [word for word in found if word in _FIRST]
    if not all(word in _COURTEOUS or word in _FIRST for word in found):
        return False
    if not own:
        return True
    return any(word in _TO_YOU for word in found) and not any(word in _PLANS for word in found)
