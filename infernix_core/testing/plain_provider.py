"""A plain mask provider: slow, obviously right, for output languages whose content is a choice, and for arguments.

It walks the language tree as a nondeterministic automaton, token by token over the whole vocabulary. It stands in
for a grammar library in the core's own tests, and is a second opinion on framing for the real providers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from attrs import define, evolve, field, frozen

from infernix_core.errors import ConstraintDeadEnd, InvalidOption
from infernix_core.interfaces.constraints import Choice
from infernix_core.interfaces.language import (
    Content,
    Label,
    Language,
    Literal,
    Members,
    Repeat,
    Separated,
    TextExcept,
    Token,
    Union,
    walk,
)
from infernix_core.interfaces.language import Sequence as Parts
from infernix_core.interfaces.mask_provider import MaskRow, never
from infernix_core.interfaces.vocabulary import TokenClass, Vocabulary
from infernix_core.testing.plain_members import OpenName, RawText, expand, raw_names


@frozen
class Item:
    """One way on: what is still to come, and the labels whose parts were begun."""

    rest: tuple[Language, ...]
    labels: tuple[str, ...] = ()


Items = frozenset[Item]


def closure(items: Iterable[Item]) -> Items:
    """Items whose head consumes something, or that are at their end."""
    done: set[Item] = set()
    seen: set[Item] = set()
    todo = list(items)
    while todo:
        item = todo.pop()
        if item in seen:
            continue
        seen.add(item)
        if not item.rest:
            done.add(item)
            continue
        expanded = _expand(item)
        if expanded is None:
            done.add(item)
        else:
            todo.extend(expanded)
    return frozenset(done)


def _expand(item: Item) -> list[Item] | None:
    """What the head stands for; ``None`` when it consumes."""
    head, rest = item.rest[0], item.rest[1:]
    match head:
        case Parts(parts):
            return [evolve(item, rest=(*parts, *rest))]
        case Union(alternatives):
            return [evolve(item, rest=(part, *rest)) for part in alternatives]
        case Label(name, part):
            labels = item.labels if name in item.labels else (*item.labels, name)
            return [Item((part, *rest), labels)]
        case Repeat(part, minimum, maximum):
            fewer = None if maximum is None else maximum - 1
            again = evolve(item, rest=(part, Repeat(part, max(minimum - 1, 0), fewer), *rest))
            ways = [again] if maximum is None or maximum > 0 else []
            return ways if minimum > 0 else [*ways, evolve(item, rest=rest)]
        case Content(Choice(literals)):
            return [evolve(item, rest=(Literal(text.encode()), *rest)) for text in literals]
        case Literal(b""):
            return [evolve(item, rest=rest)]
        case Separated(part, separator):
            more = Repeat(Parts((separator, part)))
            return [evolve(item, rest=(part, more, *rest))]
        case Literal() | Token() | TextExcept() | RawText() | OpenName():
            return None
    expanded = expand(head)
    if expanded is not None:
        return [evolve(item, rest=(way, *rest)) for way in expanded]
    raise InvalidOption(f"the plain provider knows no {head}")


@define(eq=False)
class PlainMatcher:
    """A matcher over sets of items; implements ``GrammarMatcher``."""

    vocabulary: Vocabulary
    items: Items
    masks: dict[Items, list[int]] = field(factory=dict)
    ended: bool = False

    @property
    def ready(self) -> bool:
        """See ``GrammarMatcher``: its languages are small."""
        return True

    @property
    def may_end(self) -> bool:
        """See ``GrammarMatcher``."""
        return any(not item.rest for item in self.items)

    @property
    def terminated(self) -> bool:
        """See ``GrammarMatcher``."""
        return self.ended

    @property
    def memory_size(self) -> int:
        """See ``GrammarMatcher``."""
        return 100 * len(self.items)

    def fill(self, row: MaskRow) -> bool:
        """See ``GrammarMatcher``."""
        self._require_open()
        words = self.masks.get(self.items)
        if words is None:
            bits = [0] * len(row)
            for token in range(self.vocabulary.size):
                if self._after(token) is not None:
                    bits[token >> 5] |= 1 << (token & 31)
            words = [word - (1 << 32) if word >> 31 else word for word in bits]
            self.masks[self.items] = words
        row[:] = words
        return any(words)

    def accept(self, token: int) -> bool:
        """See ``GrammarMatcher``."""
        self._require_open()
        items = self._after(token)
        if items is None:
            return False
        self.ended = self.vocabulary.classes[token] is TokenClass.END
        self.items = items
        return True

    def mark(self) -> Any:
        """See ``GrammarMatcher``."""
        return self.items, self.ended

    def rollback(self, mark: Any) -> None:
        """See ``GrammarMatcher``."""
        self.items, self.ended = mark

    def labels(self) -> tuple[str, ...]:
        """See ``GrammarMatcher``."""
        ways = [item.labels for item in self.items]
        return tuple(name for name in ways[0] if all(name in way for way in ways)) if ways else ()

    def feed(self, raw: bytes) -> bool:
        """Accepts bytes of a prefix."""
        items = self._consume(self.items, raw)
        if items:
            self.items = items
        return bool(items)

    def _require_open(self) -> None:
        if self.ended:
            raise AssertionError("a terminated matcher is used")

    def _after(self, token: int) -> Items | None:
        kind = self.vocabulary.classes[token]
        if kind is TokenClass.FORBIDDEN:
            return None
        if kind is TokenClass.END:
            return self.items if self.may_end else None
        after = set(closure(self._by_id(token)))
        if kind is TokenClass.TEXT:
            after |= self._consume(self.items, self.vocabulary.token_bytes[token])
        return frozenset(after) or None

    def _by_id(self, token: int) -> Iterator[Item]:
        for item in self.items:
            match item.rest[:1]:
                case (Token(wanted),) if wanted == token:
                    yield evolve(item, rest=item.rest[1:])
                case (TextExcept(excluded),) if token not in excluded:
                    yield evolve(item, rest=item.rest[1:])

    @staticmethod
    def _consume(items: Items, raw: bytes) -> Items:
        for value in raw:
            after = []
            for item in items:
                left = _after(item.rest[0], value) if item.rest else None
                if left is not None:
                    after.append(evolve(item, rest=(left, *item.rest[1:])))
            items = closure(after)
        return items


def _after(head: Language, byte: int) -> Language | None:
    """What is left of a part after one byte; ``None`` when it cannot come."""
    if isinstance(head, Literal):
        return Literal(head.bytes[1:]) if head.bytes[0] == byte else None
    return head.after(byte) if isinstance(head, RawText | OpenName) else None


@frozen
class PlainGrammar:
    """A language as it is; implements ``CompiledGrammar``."""

    vocabulary: Vocabulary
    language: Language
    memory_size: int = 100
    notes: tuple[str, ...] = ()
    masks: dict[Items, list[int]] = field(factory=dict, eq=False)

    @property
    def raw_members(self) -> dict[str, frozenset[str]]:
        """See ``CompiledGrammar``."""
        return {
            node.owner: raw_names(node)
            for node in walk(self.language)
            if isinstance(node, Members) and node.owner is not None and node.schema is not None
        }

    def start(self, prefix: Sequence[bytes | int] = ()) -> PlainMatcher:
        """See ``CompiledGrammar``."""
        matcher = PlainMatcher(self.vocabulary, closure([Item((self.language,))]), self.masks)
        for part in prefix:
            if not (matcher.accept(part) if isinstance(part, int) else matcher.feed(part)):
                raise ConstraintDeadEnd(f"the prefix part {part!r} does not belong to the language")
        return matcher


@frozen
class PlainProvider:
    """Implements ``MaskProvider`` and, once bound, ``BoundMaskProvider``."""

    vocabulary: Vocabulary | None = None

    def bind(self, vocabulary: Vocabulary) -> PlainProvider:
        """See ``MaskProvider``."""
        return PlainProvider(vocabulary)

    def explain(self, language: Language) -> str:
        """See ``MaskProvider``."""
        return repr(language)

    def warm_up(self) -> None:
        """See ``BoundMaskProvider``: there is nothing to do."""

    def compile(self, language: Language, check: Callable[[], None] = never) -> PlainGrammar:
        """See ``BoundMaskProvider``."""
        assert self.vocabulary is not None
        closure([Item((language,))])
        return PlainGrammar(self.vocabulary, language)
