"""The output language around JSON: tokens, literal bytes, alternatives, labels and contents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeAlias

from attrs import define, field, frozen

from infernix_core.errors import InvalidOption
from infernix_core.interfaces import language as lang
from infernix_json_masks.literals import InLiterals, LiteralSet
from infernix_json_masks.machine import (
    BLANKS,
    MAX_BLANKS,
    Below,
    Frame,
    Machine,
    State,
    Thread,
)
from infernix_json_masks.member_plans import MembersPlan
from infernix_json_masks.plans import Plans
from infernix_json_masks.values import BeforeValue, ValuePlan

#: Parts that a bounded repetition is written out to.
MAX_REPEATED = 4096


@define(eq=False)
class End:
    """The language may end here."""


@define(eq=False)
class Bytes:
    """These bytes come next; they are not empty."""

    data: bytes
    then: Point


@define(eq=False)
class OneToken:
    """One token of this id comes next."""

    id: int
    then: Point


@define(eq=False)
class AnyToken:
    """One text or framing token other than these comes next."""

    excluded: frozenset[int]
    then: Point


@define(eq=False)
class Json:
    """A JSON text comes next.

    Attributes:
        blanks: Blanks that count as used around it; all of them in compact texts.
    """

    value: ValuePlan
    then: Point
    blanks: int = 0


@define(eq=False)
class InMembers:
    """The members of an object come next."""

    plan: MembersPlan
    then: Point


@define(eq=False)
class Literals:
    """One of some texts comes next, each with its own way on."""

    texts: LiteralSet
    ways: list[Point]


@define(eq=False)
class Labelled:
    """A label begins."""

    name: str
    then: Point


@define(eq=False)
class Choice:
    """Any of these comes next; a loop leads back here."""

    ways: list[Point] = field(factory=list)


Point: TypeAlias = (
    "End | Bytes | OneToken | AnyToken | Json | InMembers | Literals | Labelled | Choice"
)
Labels = tuple[str, ...]


class PlanMaker(Protocol):
    """Makes the plans of what schemas describe."""

    def content(self, node: lang.Content) -> Plans:
        """The plans of a content."""

    def members(self, node: lang.Members) -> MembersPlan:
        """The plan of an object's members."""


def compile_language(language: lang.Language, plans: PlanMaker) -> Point:
    """The points of a language, linked to what follows each.

    Args:
        language: The whole output language.
        plans: Makes the plans of contents and members.

    Raises:
        InvalidOption: A repetition has more parts than can be written out.
    """
    return _compile(language, End(), plans)


def _compile(node: lang.Language, then: Point, plans: PlanMaker) -> Point:
    match node:
        case lang.Literal(data):
            return Bytes(data, then) if data else then
        case lang.Token(token):
            return OneToken(token, then)
        case lang.TextExcept(ids):
            return AnyToken(ids, then)
        case lang.Content():
            made = plans.content(node)
            return Json(made.root(), then, made.blanks)
        case lang.Label(name, part):
            return Labelled(name, _compile(part, then, plans))
        case lang.Sequence(parts):
            for part in reversed(parts):
                then = _compile(part, then, plans)
            return then
        case lang.Members():
            return InMembers(plans.members(node), then)
        case lang.Separated(part, separator):
            loop = Choice([then])
            start = _compile(part, loop, plans)
            loop.ways.append(_compile(separator, start, plans))
            return start
        case lang.Union(alternatives):
            return _union(alternatives, then, plans)
        case lang.Repeat(part, minimum, maximum):
            return _repeat(part, minimum, maximum, then, plans)
    raise TypeError(f"no node of the output language: {node!r}")


def _union(alternatives: Sequence[lang.Language], then: Point, plans: PlanMaker) -> Point:
    """Alternatives; many that begin with different texts are told apart by these, all at once."""
    starts = [_leading(each) for each in alternatives]
    if len(starts) > 1 and all(text for text, _ in starts):
        texts = [text for text, _ in starts]
        if len(set(texts)) == len(texts):
            literals, order = LiteralSet.of(texts)
            made = [_compile(starts[place][1], then, plans) for place in order]
            return Literals(literals, made)
    return Choice([_compile(each, then, plans) for each in alternatives])


def _leading(node: lang.Language) -> tuple[bytes, lang.Language]:
    """The text that a part begins with, and what is left of it."""
    if isinstance(node, lang.Literal):
        return node.bytes, lang.Sequence(())
    if isinstance(node, lang.Sequence) and node.parts:
        first, *rest = node.parts
        text, left = _leading(first)
        return text, lang.Sequence((left, *rest))
    return b"", node


def _repeat(
    part: lang.Language,
    minimum: int,
    maximum: int | None,
    then: Point,
    plans: PlanMaker,
) -> Point:
    if max(minimum, maximum or 0) > MAX_REPEATED:
        raise InvalidOption(f"a part of the output language repeats more than {MAX_REPEATED} times")
    if maximum is None:
        loop = Choice([then])
        loop.ways.append(_compile(part, loop, plans))
        then = loop
    else:
        for _ in range(maximum - minimum):
            then = Choice([then, _compile(part, then, plans)])
    for _ in range(minimum):
        then = _compile(part, then, plans)
    return then


@frozen(cache_hash=True)
class InLanguage(Frame):
    """At a point of the output language. There is nothing below it.

    Attributes:
        labels: The labels that began, in order.
        offset: Bytes read of a :class:`Bytes` point.
    """

    point: Point
    labels: Labels = ()
    offset: int = 0

    def step(self, byte: int, below: Below, machine: Machine) -> Iterable[State]:
        """See :class:`Frame`."""
        states: list[State] = []
        for point, labels in ways(self.point, self.labels):
            if isinstance(point, Bytes):
                if point.data[self.offset] == byte:
                    states.append((behind(point, labels, self.offset + 1), ()))
            elif isinstance(point, Json):
                thread = machine.thread(AfterJson(point.then, labels, point.blanks), ())
                before = BeforeValue(point.value, blanks=point.blanks)
                states += before.step(byte, (thread,), machine)
            elif isinstance(point, InMembers):
                first = point.plan.first()
                if first is not None:
                    below_it = (machine.thread(at(point.then, labels), ()),)
                    states += first.step(byte, below_it, machine)
            elif isinstance(point, Literals):
                states += _branch(point, labels).step(byte, (), machine)
        return states

    def bytes(self, below: Below) -> Iterable[int]:
        """See :class:`Frame`."""
        found: set[int] = set()
        for point, labels in ways(self.point, self.labels):
            if isinstance(point, Bytes):
                found.add(point.data[self.offset])
            elif isinstance(point, Json):
                found.update(BeforeValue(point.value).bytes(()))
            elif isinstance(point, InMembers):
                first = point.plan.first()
                found.update(() if first is None else first.bytes(()))
            elif isinstance(point, Literals):
                found.update(_branch(point, labels).bytes(()))
        return found


@frozen(cache_hash=True)
class InBranch(InLiterals):
    """Inside one of the texts of a :class:`Literals` point. There is nothing below it."""

    point: Literals
    labels: Labels

    def closed(self, place: int, below: Below, machine: Machine) -> list[State]:
        """See :class:`InLiterals`."""
        return [(at(self.point.ways[place], self.labels), ())]


def _branch(point: Literals, labels: Labels) -> InBranch:
    return InBranch(point.texts, 0, len(point.texts.texts), point, labels)


def behind(point: Bytes, labels: Labels, offset: int) -> InLanguage:
    """The frame behind some bytes of a literal."""
    return InLanguage(point, labels, offset) if offset < len(point.data) else at(point.then, labels)


def at(point: Point, labels: Labels) -> InLanguage:
    """The frame at a point. Labels that certainly begin there have begun."""
    while isinstance(point, Labelled):
        labels = _with(labels, point.name)
        point = point.then
    return InLanguage(point, labels)


def _with(labels: Labels, name: str) -> Labels:
    return labels if name in labels else (*labels, name)


def ways(point: Point, labels: Labels) -> list[tuple[Point, Labels]]:
    """What may come next at a point, each with the labels that have begun then."""
    found: list[tuple[Point, Labels]] = []
    seen: set[tuple[int, Labels]] = set()
    pending: list[tuple[Point, Labels]] = [(point, labels)]
    while pending:
        point, labels = pending.pop()
        key = id(point), labels
        if key in seen:
            continue
        seen.add(key)
        if isinstance(point, Choice):
            pending += [(way, labels) for way in reversed(point.ways)]
        elif isinstance(point, Labelled):
            pending.append((point.then, _with(labels, point.name)))
        else:
            found.append((point, labels))
            if isinstance(point, InMembers) and point.plan.optional:
                pending.append((point.then, labels))
    return found


@frozen(cache_hash=True)
class AfterJson(Frame):
    """Behind a JSON text, where blanks may follow."""

    then: Point
    labels: Labels
    blanks: int = 0

    def step(self, byte: int, below: Below, machine: Machine) -> Iterable[State]:
        """See :class:`Frame`."""
        states = list(at(self.then, self.labels).step(byte, (), machine))
        if byte in BLANKS and self.blanks < MAX_BLANKS:
            states.append((AfterJson(self.then, self.labels, self.blanks + 1), ()))
        return states

    def bytes(self, below: Below) -> Iterable[int]:
        """See :class:`Frame`."""
        return BLANKS.union(at(self.then, self.labels).bytes(()))


def token_points(threads: Iterable[Thread]) -> list[tuple[Point, Labels]]:
    """The points at which these threads stand at the beginning of a token, or may without another byte."""
    found: list[tuple[Point, Labels]] = []
    for thread in threads:
        for each in thread.reachable():
            frame = each.frame
            if isinstance(frame, AfterJson):
                found += ways(frame.then, frame.labels)
            elif isinstance(frame, InLanguage) and not frame.offset:
                found += ways(frame.point, frame.labels)
    return found


def labels_of(threads: Iterable[Thread]) -> Labels:
    """The labels that began in every one of these threads."""
    common: Labels | None = None
    for thread in threads:
        for labels in _bottom_labels(thread):
            if common is None:
                common = labels
            else:
                size = 0
                while size < min(len(common), len(labels)) and common[size] == labels[size]:
                    size += 1
                common = common[:size]
    return common or ()


def _bottom_labels(thread: Thread) -> Iterable[Labels]:
    seen, pending = set[int](), [thread]
    while pending:
        thread = pending.pop()
        if thread.number in seen:
            continue
        seen.add(thread.number)
        if isinstance(thread.frame, InLanguage | InBranch | AfterJson):
            yield thread.frame.labels
        pending += thread.below
