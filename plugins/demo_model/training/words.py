"""Word sources for invented names, split once into training and held-out words.

A name ("TokenBuffer", "billing-api") is joined from parts. Training parts come from English and
identifier words, from syllables, from random letters and from the tokenizer's own vocabulary:
a vocabulary token that was never copied in training is not copied at inference either, so every
one of them has to occur as a part. Held-out parts are words training never uses.
"""

import re
import sysconfig
import zlib
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

_HELD_OUT_ONE_IN = 10
_MIN_COUNT = 3
_RUN = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def split_words(text: str) -> tuple[str, ...]:
    """The blank-separated words of ``text``."""
    return tuple(text.split())


NAME_WORDS = split_words("""
parser readme lexer token buffer cache client server session engine model kernel worker queue router
handler loader writer reader config logger metric report invoice billing payment account customer order
cart checkout login user profile auth admin search index query schema table column record page view
button dialog toolbar panel widget layout theme icon image audio video camera sensor robot planet
falcon zebra tiger otter maple cedar river harbor bridge tunnel castle garden window mirror lantern
copper silver amber coral indigo violet crimson scarlet weather storm thunder winter summer autumn
engine wheel piston rocket satellite orbit comet nebula quantum photon neutron proton electron
http json yaml html date time math string number matrix vector tensor graph tree node edge path
backup restore deploy build release version package module plugin driver device network socket proxy
gateway cluster shard replica leader follower scheduler planner optimizer compiler linker assembler
main app core base test demo sample example spec setup install license changelog contributing notes
""")

FIRST_NAMES = split_words("""
Jane John Maria Ahmed Wei Anna Ivan Olga Pedro Lucia Kofi Amara Yuki Hana Ravi Priya Omar Leila Tom Sara
Lars Ingrid Pierre Chloe Marco Giulia Jonas Petra Milan Vera Noah Emma Liam Mia Felix Clara Hugo Nina
Zoë José André Márta Søren Łukasz Çelik François Jürgen Ana Maya Arjun Fatima Kenji Aiko Diego Carmen
""")

_ONSETS = split_words(
    "b c d f g h j k l m n p r s t v w z br ch cl cr dr fl fr gl gr kl kr pl pr qu sh sl st th tr"
)
_NUCLEI = split_words("a e i o u a e i o u ai ea ee io oo ou y")
_CODAS = ("", "", "", "", *split_words("n r l s t m x k nd rk st ng ck"))


def in_held_out_bucket(word: str) -> bool:
    """Whether the word's hash reserves it for evaluation. Case does not matter."""
    return zlib.crc32(word.lower().encode()) % _HELD_OUT_ONE_IN == 0


@cache
def corpus_word_counts() -> Counter[str]:
    """Lower-case words of the Python standard library's top-level modules, with their counts.

    They are read from the source text, not imported. The result depends on the Python version.
    """
    counts: Counter[str] = Counter()
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        for run in _RUN.findall(path.read_text(encoding="utf-8", errors="replace")):
            if 3 <= len(run) <= 12:
                counts[run.lower()] += 1
    return counts


def syllable_word(rng: Random) -> str:
    """A pronounceable invented word of one to three syllables."""
    return "".join(
        rng.choice(_ONSETS) + rng.choice(_NUCLEI) + rng.choice(_CODAS)
        for _ in range(rng.choice((1, 2, 2, 3)))
    )


@dataclass(frozen=True)
class WordPools:
    """Sources of name parts; no held-out word is ever drawn for training."""

    training: tuple[str, ...]
    held_out: tuple[str, ...]
    pieces: tuple[str, ...]
    _banned: frozenset[str]

    @classmethod
    def build(cls, vocabulary: Collection[str] = ()) -> "WordPools":
        """Split the words; ``vocabulary`` holds the tokenizer's tokens.

        Purely alphabetic tokens become training parts, whatever their hash: held-out words are
        therefore words of two tokens or more.
        """
        pieces = sorted({t for t in vocabulary if t.isascii() and t.isalpha() and len(t) >= 2})
        known = {piece.lower() for piece in pieces} | set(NAME_WORDS)
        words = sorted(w for w, n in corpus_word_counts().items() if n >= _MIN_COUNT)
        held_out = tuple(w for w in words if in_held_out_bucket(w) and w not in known)
        training = tuple(w for w in words if not in_held_out_bucket(w))
        return cls(training, held_out, tuple(pieces), frozenset(held_out))

    def part(self, rng: Random, held_out: bool) -> str:
        """One name part, in lower case except for pieces and random letters."""
        if held_out:
            return rng.choice(self.held_out)
        while True:
            part = self._training_part(rng)
            if not any(run.lower() in self._banned for run in _RUN.findall(part)):
                return part

    def _training_part(self, rng: Random) -> str:
        kind = rng.random()
        if kind < 0.42:
            return rng.choice(self.training)
        if kind < 0.54:
            return rng.choice(NAME_WORDS)
        if kind < 0.72:
            return syllable_word(rng)
        if kind < 0.95 and self.pieces:
            return "".join(rng.choice(self.pieces) for _ in range(rng.choice((1, 1, 2))))
        letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
        return "".join(rng.choice(letters) for _ in range(rng.randint(1, 5)))
