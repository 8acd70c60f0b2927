"""English: the first person becomes the speaker's name, and its verbs agree with it.

"I" becomes the speaker ("User", or the message's name), "my" and "our" the speaker's, "we" and "us" the speaker "and others"
(who they are is not said here). In an assistant's message "you" becomes the user. Quotes, code and addresses stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from memline.pipeline.extractors.spans import Token, plain, tokens
from memline.pipeline.extractors.word_list import words
from memline.pipeline.extractors.words_english import (
    ADVERBS,
    COORDINATED,
    FOLLOWS_VERB,
    MODALS,
    NOT_ADVERBS,
    NOT_ED,
    NOT_VERBS,
    PARTICIPLES,
    PAST,
    agree,
)

__all__ = ["in_third_person"]

_AUXILIARIES = MODALS | words("am do did have had was were don't didn't haven't hadn't wasn't weren't")
_NUMBERED = words(
    "war part chapter phase type level book act volume class stage grade tier elizabeth charles james napoleon section appendix title "
    "schedule category"
)
_JOINERS = "-_@#\\/"
_RESET = words("you he she it they who that which to can could should will would may might must let help")
_BOUNDARIES = words("that because when where since if so while which but and")
_VERBISH = _AUXILIARIES | PAST | words("is are has does isn't aren't hasn't doesn't i i'm i've i'd i'll we we're we've you he she it they")
_YOU_VERBS = words("like love want need prefer live work enjoy know")
_AFTER_OF = words("of is are was were like than with to not be isn't from and")
#: A sentence that begins with one of these has lost its "I".
_DROPPED = words(
    "moved went got started finished bought met adopted visited joined signed spent celebrated booked took tried ate cooked painted ran "
    "attended won lost passed switched quit learned learnt hiked baked"
)
_BEFORE_DROPPED = words("just also finally recently already actually even")


def in_third_person(sentence: str, speaker: str, *, addressee: str | None = None) -> str:
    """*sentence* as said about *speaker*; with *addressee*, "you" is that one."""
    return _Rewriter(tokens(sentence), speaker, addressee).run()


@dataclass(slots=True)
class _Rewriter:
    tokens: list[Token]
    speaker: str
    addressee: str | None
    out: list[str] = field(default_factory=list)
    #: Lower-cased words of this clause so far.
    clause: list[str] = field(default_factory=list)
    #: Index of a token whose verb was conjugated already, and its form.
    conjugated: dict[int, str] = field(default_factory=dict)
    coordinating: bool = False

    def run(self) -> str:
        for index, token in enumerate(self.tokens):
            if index in self.conjugated:
                self.out.append(self.conjugated[index])
            elif token.kind == "word":
                self.out.append(self._word(index, token))
            else:
                self.out.append(token.text)
                if token.text in (",", ";", ":", ".", "!", "?", "—", "(", ")"):
                    self._coordinate(index)
                    self.clause.clear()
            if token.kind == "word":
                self._note(index, token.low)
        return self._with_subject("".join(self.out))

    def _note(self, index: int, low: str) -> None:
        if low in _RESET:
            self.coordinating = False
        if low in ("and", "or", "but"):
            self._coordinate(index)
        if low in _BOUNDARIES and not (low == "and" and self._is_name_list()):
            self.clause.clear()
        else:
            self.clause.append(low)

    def _is_name_list(self) -> bool:
        return 0 < len(self.clause) <= 6 and not any(self._is_verbish(word) for word in self.clause)

    @staticmethod
    def _is_verbish(word: str) -> bool:
        return word in _VERBISH or (word.endswith("ed") and word not in NOT_ED)

    def _word(self, index: int, token: Token) -> str:
        low = token.low
        if low in ("i", "i'm", "i've", "i'd", "i'll", "im", "ive"):
            return self._first_person(index, token, low)
        if low in ("my", "our", "ours", "me", "us", "we", "we're", "we've", "we'd", "we'll", "myself", "ourselves", "mine"):
            return self._other_form(index, token, low)
        if self.addressee is not None and low in ("you", "your", "yours", "you're", "you've", "you'll", "you'd", "yourself"):
            return self._second_person(index, low, self.addressee)
        return token.text

    # -- "I" ------------------------------------------------------------------------------------------------------------------

    def _first_person(self, index: int, token: Token, low: str) -> str:
        if self._is_joined(index, low) or (low == "i" and (self._is_numeral(index) or self._is_named(index))):
            return token.text
        if low in ("im", "ive"):
            following = self._word_at(self._next(index))
            if token.text.isupper() or self.clause or not following.isascii() or not following[:1].islower():
                return token.text
            low = low[0] + "'" + low[1:]
        if low == "i'm":
            return f"{self.speaker} is"
        if low == "i've":
            return f"{self.speaker} has"
        if low == "i'll":
            return f"{self.speaker} will"
        if low == "i'd":
            return f"{self.speaker} {self._had_or_would(index)}"
        if not self._inverts(index) and not self._is_compound():
            self._conjugate_after(index)
        return self.speaker

    def _inverts(self, index: int) -> bool:
        """The auxiliary stands before the subject ("should I"); it agrees, the verb does not."""
        before = self._previous(index)
        if before < 0 or self.tokens[before].low not in _AUXILIARIES:
            return False
        form = agree(self.tokens[before].low)
        if form != self.tokens[before].low:
            self.out[before] = form[0].upper() + form[1:] if self.tokens[before].text[0].isupper() else form
        return True

    def _is_compound(self) -> bool:
        """ "my wife and I": a plural subject."""
        if not self.clause or self.clause[-1] not in ("and", "or") or len(self.clause) > 7:
            return False
        return not any(self._is_verbish(word) for word in self.clause)

    def _conjugate_after(self, index: int) -> None:
        position = self._next(index)
        for _ in range(4):
            word = self._word_at(position)
            low = plain(word)
            if not word:
                return
            if low in ADVERBS or (low.endswith("ly") and low not in NOT_ADVERBS):
                position = self._next(position)
                continue
            if word[0].isupper() or low in NOT_VERBS:
                return
            form = agree(low)
            if form != low:
                self.conjugated[position] = form
                self.coordinating = form not in ("is", "has") or low == "have"
            return

    def _coordinate(self, index: int) -> None:
        """Conjugates the verb after "and" where the subject is still the speaker."""
        if not self.coordinating:
            return
        position = self._next(index)
        word = self._word_at(position)
        while word and (word in ADVERBS or (word.endswith("ly") and word not in NOT_ADVERBS)):
            position = self._next(position)
            word = self._word_at(position)
        after = self._word_at(self._next(position))
        if word in COORDINATED and (plain(after) in FOLLOWS_VERB or after[:1].isupper() or after[:1].isdigit()):
            self.conjugated[position] = agree(word)

    def _had_or_would(self, index: int) -> str:
        position = self._next(index)
        low = plain(self._word_at(position))
        while low and (low in ADVERBS or (low.endswith("ly") and low not in NOT_ADVERBS)):
            position = self._next(position)
            low = plain(self._word_at(position))
        return "had" if low in PARTICIPLES or (low.endswith("ed") and low not in NOT_ED) else "would"

    def _is_numeral(self, index: int) -> bool:
        before = self._previous(index)
        if before < 0:
            return False
        low = self.tokens[before].low
        following = plain(self._word_at(self._next(index)))
        is_verb = bool(following) and (following in _VERBISH or agree(following) != following)
        return self.tokens[before].text[0].isupper() and (low in _NUMBERED and not is_verb)

    def _is_named(self, index: int) -> bool:
        """ "I, Robot": a title, or an apposition that names who speaks."""
        following = [token.text for token in self.tokens[index + 1 : index + 4]]
        return len(following) == 3 and following[0] == "," and following[1].isspace() and following[2][0].isupper()

    # -- the other forms ------------------------------------------------------------------------------------------------------

    def _other_form(self, index: int, token: Token, low: str) -> str:
        if self._is_joined(index, low) or self._is_title_word(index, token):
            return token.text
        if low in ("us", "me") and token.text.isupper():
            return token.text
        if low == "mine":
            before = self._previous(index)
            return f"{self.speaker}'s" if before >= 0 and self.tokens[before].low in _AFTER_OF else token.text
        if low in ("my", "our", "ours"):
            return f"{self.speaker}'s"
        if low == "me":
            return self.speaker
        if low in ("myself", "ourselves"):
            return "themselves"
        verb = {"we're": " are", "we've": " have", "we'll": " will"}.get(low, "")
        if low == "we'd":
            verb = " " + self._had_or_would(index)
        return f"{self.speaker} and others{verb}"

    def _second_person(self, index: int, low: str, name: str) -> str:
        if self._is_joined(index, low):
            return self.tokens[index].text
        if low in ("your", "yours"):
            return f"{name}'s"
        if low == "yourself":
            return "themselves"
        verb = {"you're": " is", "you've": " has", "you'll": " will"}.get(low, "")
        if low == "you'd":
            verb = " " + self._had_or_would(index)
        if low == "you":
            self._agree_with_you(index)
        return name + verb

    def _agree_with_you(self, index: int) -> None:
        before = self._previous(index)
        if before >= 0 and self.tokens[before].low in ("are", "were", "do", "have", "don't", "aren't", "haven't"):
            form = {"are": "is", "were": "was", "aren't": "isn't"}.get(self.tokens[before].low) or agree(self.tokens[before].low)
            self.out[before] = form.capitalize() if self.tokens[before].text[0].isupper() else form
            return
        position = self._next(index)
        low = self._word_at(position)
        form = {"are": "is", "aren't": "isn't", "were": "was", "weren't": "wasn't"}.get(low, "")
        if not form and (low in _YOU_VERBS or low in ("have", "haven't", "do", "don't")) and self._previous(index) < 0:
            form = agree(low)
        if form:
            self.conjugated[position] = form

    # -- where a token stands ---------------------------------------------------------------------------------------------------

    def _next(self, index: int) -> int:
        """Index of the word after white space, or -1."""
        position = index + 1
        if index >= 0 and position < len(self.tokens) and self.tokens[position].kind == "space":
            position += 1
            if position < len(self.tokens) and self.tokens[position].kind == "word":
                return position
        return -1

    def _previous(self, index: int) -> int:
        if index >= 2 and self.tokens[index - 1].kind == "space" and self.tokens[index - 2].kind == "word":
            return index - 2
        return -1

    def _word_at(self, index: int) -> str:
        return self.tokens[index].text.replace("’", "'") if index >= 0 else ""

    def _is_joined(self, index: int, low: str) -> bool:
        """Part of a longer name: "I-95", "I/O", "A.I.", "about.me", "my-app"."""
        right = self.tokens[index + 1].text if index + 1 < len(self.tokens) else ""
        further = self.tokens[index + 2].kind if index + 2 < len(self.tokens) else ""
        if right and (right in _JOINERS or right == ".") and further == "word":
            return True
        left = self.tokens[index - 1].text if index else ""
        if index < 2 or self.tokens[index - 2].kind != "word":
            return bool(left) and left in "@#\\/_"
        return left in _JOINERS or (left == "." and (low != "i" or len(self.tokens[index - 2].text) == 1))

    def _is_title_word(self, index: int, token: Token) -> bool:
        """A capital inside a sentence: "the film My Fair Lady"."""
        if not token.text[0].isupper() or index == 0:
            return False
        before = self._previous(index)
        following = self._word_at(self._next(index))
        return before >= 0 and following[:1].isupper() and not self.tokens[before].text.isupper()

    def _with_subject(self, text: str) -> str:
        """Gives a sentence that lost its "I" its subject back: "Moved to Bonn last week"."""
        if not self.tokens or self.tokens[0].kind != "word":
            return text
        first = self.tokens[0].low
        verb = self._word_at(self._next(0)) if first in _BEFORE_DROPPED else first
        following = plain(self._word_at(self._next(0 if verb == first else self._next(0))))
        if verb not in _DROPPED or following in ("by", "off", "in", "it", ""):
            return text
        return f"{self.speaker} {text[0].lower()}{text[1:]}"
