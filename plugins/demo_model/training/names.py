"""Invented values of the records: paths, identifiers, people, e-mail addresses, numbers."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from .templates import ERROR_CLASSES, NEUTRAL_ERRORS, THINGS
from .words import FIRST_NAMES, WordPools, split_words, syllable_word

EXTENSIONS = split_words(
    "py java md js ts cpp c h hpp rs go kt rb php cs swift scala sh sql html css json yaml yml toml "
    "xml txt ini cfg vue jsx tsx lua pl r jl hs ml ex erl clj dart m mm proto gradle lock log csv conf "
    "rst tex asm zig nim cu bat ps1 ipynb tf"
)
_BARE_FILES = split_words(
    "Makefile Dockerfile LICENSE README CHANGELOG Jenkinsfile Gemfile Rakefile BUILD"
)
_DIRECTORIES = split_words(
    "src lib app tests docs core net util include pkg cmd internal api web scripts tools"
)
_DOMAINS = split_words("com org net io dev de fr uk edu co eu example.com example.org")


@dataclass(frozen=True)
class Names:
    """Draws values; with ``held_out`` every open-ended part is a word that training never uses."""

    rng: Random
    pools: WordPools
    held_out: bool = False

    def part(self) -> str:
        """One name part."""
        return self.pools.part(self.rng, self.held_out)

    def identifier(self) -> str:
        """One to three parts in one of the usual spellings (snake, kebab, camel, ...)."""
        parts = [self.part() for _ in range(self.rng.choice((1, 1, 2, 2, 2, 3)))]
        return self.rng.choice(_SPELLINGS)(parts)

    def file(self) -> str:
        """A file name, in two of five cases with one to three directories before it."""
        rng = self.rng
        if rng.random() < 0.03 and not self.held_out:
            base = rng.choice(_BARE_FILES)
        else:
            base = f"{self.identifier()}.{self._extension()}"
        if rng.random() < 0.6:
            return base
        folders = [self._directory() for _ in range(rng.choice((1, 1, 2, 3)))]
        return "/".join([*folders, base])

    def path(self) -> str:
        """A file as a user names it, sometimes from the root, the home or another folder."""
        return self._anchor() + self.file()

    def folder(self) -> str:
        """One to three directories, rarely closed with a slash."""
        parts = [self._directory() for _ in range(self.rng.choice((1, 1, 2, 2, 3)))]
        return self._anchor() + "/".join(parts) + self.rng.choice(("", "", "", "", "", "", "/"))

    def _anchor(self) -> str:
        if self.rng.random() < 0.9:
            return ""
        return self.rng.choice(("/", "./", "../", "~/", "/etc/", "/var/log/", "/tmp/", "./src/"))

    def _directory(self) -> str:
        if self.rng.random() < 0.5:
            return self.rng.choice(_DIRECTORIES)
        return self.identifier()

    def _extension(self) -> str:
        rng = self.rng
        kind = rng.random()
        if kind < 0.55:
            return rng.choice(EXTENSIONS[:12])
        if kind < 0.97:
            return rng.choice(EXTENSIONS)
        return "".join(rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(rng.randint(1, 4)))

    def number(self, digits: int = 5) -> int:
        """A positive number with one to ``digits`` digits, each length equally likely."""
        width = self.rng.randint(1, digits)
        return self.rng.randint(10 ** (width - 1), 10**width - 1)

    def error(self) -> str:
        """Something that went wrong and says nothing about the severity."""
        rng = self.rng
        kind = rng.random()
        if kind < 0.35:
            return rng.choice(ERROR_CLASSES)
        if kind < 0.55:
            return rng.choice(NEUTRAL_ERRORS)
        if kind < 0.9:
            parts = [_capitalised(self.part()) for _ in range(rng.choice((1, 2)))]
            return "".join(parts) + rng.choice(
                ("Error", "Exception", "Failure", "Fault", "Warning")
            )
        return f"{rng.choice(NEUTRAL_ERRORS)} in {self.identifier()}"

    def thing(self) -> str:
        """An object an impact acts on."""
        if self.rng.random() < 0.6:
            return self.rng.choice(THINGS)
        article = self.rng.choice(("the ", "the ", "", "our "))
        return article + self.part()

    def person(self) -> str:
        """A first and a last name, sometimes with a middle name or initial."""
        rng = self.rng
        names = [self._given_name(), _capitalised(self.part())]
        if rng.random() < 0.12:
            names.insert(1, rng.choice((f"{rng.choice('ABCDEFGHKLMNPRST')}.", self._given_name())))
        return " ".join(names)

    def _given_name(self) -> str:
        if not self.held_out and self.rng.random() < 0.5:
            return self.rng.choice(FIRST_NAMES)
        return _capitalised(self.part())

    def company(self) -> str:
        """A company name."""
        suffix = self.rng.choice(("", "", " Ltd", " Inc", " Labs", " GmbH"))
        return _capitalised(self.part()) + suffix

    def email(self, person: str) -> str:
        """An address, often made from the person's name."""
        rng = self.rng
        words = [word.strip(".").lower() for word in person.split()]
        first, last = words[0], words[-1]
        local = rng.choice(
            (
                f"{first}.{last}",
                f"{first}.{last}",
                f"{first}_{last}",
                f"{first[0]}{last}",
                first,
                last,
                self.part().lower(),
                f"{self.part().lower()}{self.number(2)}",
                f"{first}.{self.part().lower()}",
            )
        )
        return f"{local}@{self.part().lower()}.{rng.choice(_DOMAINS)}"

    def text(self) -> str:
        """A few words, names and numbers to be repeated."""
        rng = self.rng
        makers: tuple[Callable[[], str], ...] = (
            self.part,
            self.part,
            lambda: _capitalised(self.part()),
            self.identifier,
            self.file,
            lambda: str(self.number()),
            lambda: syllable_word(rng) if not self.held_out else self.part(),
        )
        separator = rng.choice((" ", " ", " ", ", ", "-", "_", "/"))
        return separator.join(rng.choice(makers)() for _ in range(rng.randint(1, 6)))


def _capitalised(word: str) -> str:
    return word[:1].upper() + word[1:]


_SPELLINGS: tuple[Callable[[list[str]], str], ...] = (
    lambda parts: "".join(map(_capitalised, parts)),
    lambda parts: "".join(map(_capitalised, parts)),
    "_".join,
    "-".join,
    "_".join,
    lambda parts: parts[0] + "".join(map(_capitalised, parts[1:])),
    "".join,
    lambda parts: "_".join(parts).upper(),
    ".".join,
    lambda parts: "-".join(map(_capitalised, parts)),
)
