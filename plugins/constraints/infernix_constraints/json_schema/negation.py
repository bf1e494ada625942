"""The negation of one schema position, as a choice among ways to fail it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any

from attrs import define, evolve, field

from infernix_constraints.json_schema.assertions import (
    ALL_KINDS,
    FALSE,
    TRUE,
    Assertions,
    Counted,
    Key,
    Refusal,
    SomeMember,
    negation_of,
)
from infernix_constraints.json_schema.numbers import Bound
from infernix_constraints.json_schema.values import ArrayValue, ObjectValue

_OBJECT = frozenset({"object"})
_ARRAY = frozenset({"array"})
_NUMBER = frozenset({"number"})
_STRING = frozenset({"string"})


def negate(
    found: Assertions, empty: Callable[[Key], bool]
) -> tuple[Assertions, dict[Key, Assertions]]:
    """The position of the values that do not satisfy one, and the positions made up for it.

    Args:
        found: The position to negate.
        empty: Whether a position admits nothing, as far as that is plain.

    What cannot be negated becomes a refusal, raised only where values of its type remain.
    """
    if found.error is not None:
        return Assertions(negation_of(found.key), found.pointer, error=found.error), {}
    negation = _Negation(found, empty)
    ways = list(dict.fromkeys(negation.ways()))
    result = Assertions(negation_of(found.key), found.pointer)
    if not ways:
        result = evolve(result, kinds=frozenset[str]())
    elif len(ways) == 1 and len(ways[0]) == 1:
        (only,) = ways[0]
        # The one way to fail is this position itself, without a name in between.
        made = negation.made_up.pop(only, None)
        result = evolve(result, in_place=ways[0]) if made is None else evolve(made, key=result.key)
    else:
        result = evolve(result, choices=(tuple(ways),))
    return result, negation.made_up


@define
class _Negation:
    found: Assertions
    empty: Callable[[Key], bool]
    made_up: dict[Key, Assertions] = field(init=False, factory=dict)

    def way(self, label: str, **assertions: Any) -> tuple[Key]:
        key = f"#{negation_of(self.found.key)}#{label}"
        self.made_up[key] = Assertions(key, self.found.pointer, **assertions)
        return (key,)

    def ways(self) -> Iterator[tuple[Key, ...]]:
        """Conjunctions, each of which is a way to fail."""
        found = self.found
        if found.kinds != ALL_KINDS:
            yield self.way("kinds", kinds=ALL_KINDS - found.kinds)
        if found.integral:
            yield self.way("integral", kinds=_NUMBER, fractional=True)
        if found.fractional:
            yield self.way("fractional", kinds=_NUMBER, integral=True)
        yield from self._values()
        yield from self._numbers()
        yield from self._strings()
        if "array" in found.kinds:
            yield from self._arrays()
        if "object" in found.kinds:
            yield from self._objects()
        yield from self._compositions()
        for refusal in found.refusals:
            yield self.refuse(refusal.kind, None, refusal.what)

    def failing(self, key: Key) -> Key:
        """The negation of a position, everything where that is plain."""
        return TRUE if self.empty(key) else negation_of(key)

    def refuse(self, kind: str, keyword: str | None, what: str) -> tuple[Key]:
        location = self.found.location(keyword)
        refusal = Refusal(kind, location, what)
        return self.way(f"refused {keyword}", kinds=frozenset({kind}), refusals=(refusal,))

    def _values(self) -> Iterator[tuple[Key, ...]]:
        for place, finite in enumerate(self.found.finite):
            refusals = []
            more: dict[str, int] = {}
            for value in finite.values:
                if isinstance(value, ArrayValue | ObjectValue):
                    kind = "array" if isinstance(value, ArrayValue) else "object"
                    if value in (ArrayValue(()), ObjectValue(())):
                        more["min_items" if kind == "array" else "min_properties"] = 1
                    else:
                        what = f"every {kind} but those of {finite.keyword}"
                        refusals.append(Refusal(kind, self.found.location(finite.keyword), what))
            yield self.way(f"values {place}", excluded=(finite,), refusals=tuple(refusals), **more)
        for place, finite in enumerate(self.found.excluded):
            yield self.way(f"excluded {place}", finite=(finite,))

    def _numbers(self) -> Iterator[tuple[Key, ...]]:
        found = self.found
        for place, bound in enumerate(found.lower):
            failing = Bound(bound.value, not bound.exclusive, bound.location)
            yield self.way(f"lower {place}", kinds=_NUMBER, upper=(failing,))
        for place, bound in enumerate(found.upper):
            failing = Bound(bound.value, not bound.exclusive, bound.location)
            yield self.way(f"upper {place}", kinds=_NUMBER, lower=(failing,))
        for place, multiple in enumerate(found.multiples):
            yield self.way(f"multiple {place}", kinds=_NUMBER, not_multiples=(multiple,))

    def _strings(self) -> Iterator[tuple[Key, ...]]:
        found = self.found
        if found.min_length:
            yield self.way("minLength", kinds=_STRING, max_length=found.min_length - 1)
        if found.max_length is not None:
            yield self.way("maxLength", kinds=_STRING, min_length=found.max_length + 1)
        for place, test in enumerate(found.tests):
            failing = evolve(test, negated=not test.negated)
            yield self.way(f"test {place}", kinds=_STRING, tests=(failing,))

    def _arrays(self) -> Iterator[tuple[Key, ...]]:
        found = self.found
        if found.min_items:
            yield self.way("minItems", kinds=_ARRAY, max_items=found.min_items - 1)
        if found.max_items is not None:
            yield self.way("maxItems", kinds=_ARRAY, min_items=found.max_items + 1)
        for place, key in enumerate(found.prefix):
            if key != TRUE:
                prefix = (*(TRUE,) * place, negation_of(key))
                yield self.way(f"item {place}", kinds=_ARRAY, prefix=prefix, min_items=place + 1)
        if found.items is not None and found.items != TRUE:
            if not found.prefix:
                one = Counted(negation_of(found.items), 1, None, found.location("items"))
                yield self.way("items", kinds=_ARRAY, contains=(one,))
            elif self.empty(found.items):
                yield self.way("items", kinds=_ARRAY, min_items=len(found.prefix) + 1)
            else:
                yield self.refuse("array", "items", "the negation of items after the first ones")
        for place, counted in enumerate(found.contains):
            if counted.minimum:
                fewer = Counted(counted.key, 0, counted.minimum - 1, counted.location)
                yield self.way(f"fewer {place}", kinds=_ARRAY, contains=(fewer,))
            if counted.maximum is not None:
                more = Counted(counted.key, counted.maximum + 1, None, counted.location)
                yield self.way(f"more {place}", kinds=_ARRAY, contains=(more,))
        if found.unique:
            yield self.refuse("array", "uniqueItems", "the negation of uniqueItems")
        if found.unevaluated_items is not None:
            yield self.refuse("array", "unevaluatedItems", "the negation of unevaluatedItems")

    def _objects(self) -> Iterator[tuple[Key, ...]]:
        found = self.found
        if found.min_properties:
            fewer = found.min_properties - 1
            yield self.way("minProperties", kinds=_OBJECT, max_properties=fewer)
        if found.max_properties is not None:
            more = found.max_properties + 1
            yield self.way("maxProperties", kinds=_OBJECT, min_properties=more)
        for name in found.required:
            yield self.way(f"without {name}", kinds=_OBJECT, properties={name: FALSE})
        for name, key in found.properties.items():
            if self.empty(key):
                yield self.way(f"member {name}", kinds=_OBJECT, required=(name,))
            elif key != TRUE:
                failing = {name: negation_of(key)}
                yield self.way(
                    f"member {name}", kinds=_OBJECT, required=(name,), properties=failing
                )
        some = []
        for test, key in found.patterns:
            at = found.location("patternProperties")
            some.append(SomeMember(at, self.failing(key), test=test))
        if found.additional is not None:
            declared = frozenset(found.properties)
            tests = tuple(test for test, _ in found.patterns)
            at = found.location("additionalProperties")
            key = self.failing(found.additional)
            some.append(SomeMember(at, key, declared=declared, patterns=tests))
        if found.names is not None:
            at = found.location("propertyNames")
            some.append(SomeMember(at, names=negation_of(found.names)))
        for place, each in enumerate(some):
            if each.key != FALSE:
                yield self.way(f"some {place}", kinds=_OBJECT, some_member=(each,))
        if found.some_member:
            yield self.refuse("object", None, "a double negation")
        if found.unevaluated_properties is not None:
            what = "the negation of unevaluatedProperties"
            yield self.refuse("object", "unevaluatedProperties", what)

    def _compositions(self) -> Iterator[tuple[Key, ...]]:
        found = self.found
        for key in found.in_place:
            yield (negation_of(key),)
        for place, group in enumerate(found.choices):
            single = tuple(negation_of(each[0]) for each in group if len(each) == 1)
            several = tuple(
                tuple((negation_of(key),) for key in each) for each in group if len(each) > 1
            )
            yield self.way(f"no choice {place}", in_place=single, choices=several)
        for place, keys in enumerate(found.one_of):
            yield self.way(f"none of {place}", in_place=tuple(map(negation_of, keys)))
            yield from combinations(keys, 2)
