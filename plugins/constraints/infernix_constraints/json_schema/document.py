"""Schema positions of one document and the references between them."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import define, evolve, field

from infernix_constraints.json_schema.assertions import FALSE, TRUE, Assertions, Key, negation_of
from infernix_constraints.json_schema.graph import Note
from infernix_constraints.json_schema.keywords import DRAFT_2020_12, dialect_of
from infernix_constraints.json_schema.negation import negate
from infernix_constraints.json_schema.reader import read_schema
from infernix_constraints.json_schema.reading import Reading
from infernix_constraints.json_schema.references import References
from infernix_constraints.json_schema.source import Json
from infernix_constraints.json_schema.values import MAX_VALUES, too_many_values
from infernix_core.errors import Location, UnsupportedSchema

#: Schemas that a document may hold.
MAX_POSITIONS = 32768


@define(eq=False)
class SchemaDocument:
    """A document, all schema positions of which are read and checked at once.

    Positions are named by their JSON Pointers, each spelled in one way only, their negations by ``!``
    before the pointer, and made-up positions by ``#``.

    Raises:
        InvalidSchema: A position is not a schema of its dialect, or a reference leads nowhere.
        UnsupportedSchema: The dialect is not known. What cannot be enforced is refused where it is used.
    """

    root: Json
    dialect: int = field(init=False, default=DRAFT_2020_12)
    notes: list[Note] = field(init=False, factory=list)
    _references: References = field(init=False)
    _known: dict[Key, Assertions] = field(init=False, factory=dict)

    def __attrs_post_init__(self) -> None:
        if isinstance(self.root, dict) and "$schema" in self.root:
            self.dialect = dialect_of(self.root["$schema"])
        everything = frozenset[str]()
        self._known[TRUE] = Assertions(TRUE, "")
        self._known[FALSE] = Assertions(FALSE, "", everything)
        self._references = References(self.root, self.dialect)
        self._read_all()

    def _read_all(self) -> None:
        """Reads every position that the root or a reference leads to, in the order of the source."""
        readings: dict[str, Reading] = {}
        pending: list[tuple[str, Json]] = [("", self.root)]
        found: dict[str, Json] = {}
        listed = 0
        while pending:
            while pending:
                pointer, document = pending.pop()
                if pointer in readings:
                    continue
                reading = read_schema(pointer, document, self.dialect)
                readings[pointer] = reading
                listed += reading.listed
                if listed > MAX_VALUES:
                    raise too_many_values(Location(pointer=pointer))
                if len(readings) > MAX_POSITIONS:
                    raise UnsupportedSchema(
                        f"the document holds more than {MAX_POSITIONS} schemas",
                        location=Location(pointer=pointer),
                    )
                self.notes += reading.notes
                self._references.enter(pointer, document)
                pending += reversed(reading.positions.items())
            # References may lead to places that no keyword makes a schema.
            for pointer, reading in readings.items():
                if pointer not in self._known:
                    target = self._finish(reading)
                    if target is not None and target not in readings:
                        found[target] = self._references.document(target)
            pending += found.items()
            found.clear()

    def _finish(self, reading: Reading) -> str | None:
        """Takes a reading over with its reference resolved, and returns where it leads."""
        assertions, target = reading.assertions, None
        if reading.reference is not None:
            try:
                target = self._references.resolve(
                    reading.reference, assertions.pointer, reading.keyword
                )
            except UnsupportedSchema as error:
                assertions = evolve(assertions, error=assertions.error or error)
            else:
                assertions = evolve(assertions, in_place=(target, *assertions.in_place))
        self._known[assertions.key] = assertions
        self._known.update(reading.made_up)
        return target

    def add(self, assertions: Assertions) -> Key:
        """Makes a position up, unless it is known, and returns its key."""
        return self._known.setdefault(assertions.key, assertions).key

    def assertions(self, key: Key) -> Assertions:
        """What a position asserts.

        Raises:
            UnsupportedSchema: It asserts something that cannot be enforced.
        """
        known = self._known.get(key)
        if known is None:
            known, made_up = negate(self.assertions(negation_of(key)), self.empty)
            self._known[key] = known
            self._known.update(made_up)
        if known.error is not None:
            raise UnsupportedSchema(
                known.error.message, location=known.error.location, hint=known.error.hint
            )
        return known

    def empty(self, key: Key) -> bool:
        """Whether a position plainly admits nothing."""
        known = self._known.get(key)
        return known is not None and known.error is None and not known.kinds

    def conjunction(self, keys: Iterable[Key]) -> tuple[Key, ...]:
        """The positions that together assert the same, without aliases, repetitions and empty schemas.

        A position beside its negation makes the conjunction ``FALSE``.
        """
        result: dict[Key, None] = {}
        for key in keys:
            passed = {key}
            while (target := self.assertions(key).alias) is not None and target not in passed:
                passed.add(target)
                key = target
            if not self.assertions(key).vacuous:
                if negation_of(key) in result:
                    return (FALSE,)
                result[key] = None
        return tuple(result)

    def location(self, key: Key) -> Location:
        """Where a position comes from."""
        return Location(pointer=self._known[key].pointer if key in self._known else "")
