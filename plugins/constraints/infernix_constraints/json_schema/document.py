"""Schema positions of one document and the references between them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import unquote_to_bytes

from attrs import define, evolve, field

from infernix_constraints.json_schema.assertions import (
    DRAFT_2020_12,
    Assertions,
    dialect_of,
    read_schema,
)
from infernix_constraints.json_schema.source import Json, child
from infernix_core.errors import InvalidSchema, Location, UnsupportedSchema

_BAD_ESCAPE = re.compile(r"~(?![01])")
_INDEX = re.compile(r"0|[1-9][0-9]*")


@define(eq=False)
class SchemaDocument:
    """A document whose schema positions are read when they are first asked for.

    Positions are named by their JSON Pointers, each spelled in one way only.
    """

    root: Json
    draft: str = field(init=False)
    _documents: dict[str, Json] = field(init=False)
    _read: dict[str, Assertions] = field(init=False, factory=dict)

    def __attrs_post_init__(self) -> None:
        self._documents = {"": self.root}
        self.draft = DRAFT_2020_12
        if isinstance(self.root, dict) and "$schema" in self.root:
            self.draft = dialect_of(self.root["$schema"])

    def assertions(self, pointer: str) -> Assertions:
        """What the schema at a known position asserts, its reference resolved to a position.

        Raises:
            InvalidSchema: It is not a schema, or its reference leads nowhere.
            UnsupportedSchema: It asserts something that cannot be enforced.
        """
        known = self._read.get(pointer)
        if known is None:
            known, positions = read_schema(pointer, self._documents[pointer], self.draft)
            self._documents.update(positions)
            if known.reference is not None:
                known = evolve(known, reference=self._resolve(known.reference, pointer))
            self._read[pointer] = known
        return known

    def conjunction(self, pointers: Iterable[str]) -> tuple[str, ...]:
        """The positions that together assert the same, without aliases, repetitions and empty schemas."""
        result: dict[str, None] = {}
        for pointer in pointers:
            passed = {pointer}
            while (target := self.assertions(pointer).alias) is not None and target not in passed:
                passed.add(target)
                pointer = target
            if not self.assertions(pointer).vacuous:
                result[pointer] = None
        return tuple(result)

    def check_unread(self) -> None:
        """Checks the schema positions that the root does not lead to, which are no part of its meaning.

        Raises:
            InvalidSchema: One is not a schema. What merely cannot be enforced does no harm there.
        """
        while pending := self._documents.keys() - self._read.keys() - self._skipped:
            for pointer in sorted(pending):
                try:
                    self.assertions(pointer)
                except UnsupportedSchema:
                    self._skipped.add(pointer)

    _skipped: set[str] = field(init=False, factory=set)

    def _resolve(self, reference: str, source: str) -> str:
        location = Location(pointer=source, keyword="$ref")
        try:
            fragment = unquote_to_bytes(reference.removeprefix("#")).decode()
        except UnicodeError as error:
            raise InvalidSchema("the reference is not UTF-8", location=location) from error
        if fragment and not fragment.startswith("/"):
            raise UnsupportedSchema(
                f"the reference {reference!r} names an anchor",
                location=location,
                hint="references of the form #/$defs/name",
            )
        document, pointer = self.root, ""
        for token in fragment.split("/")[1:]:
            if _BAD_ESCAPE.search(token):
                raise InvalidSchema(
                    f"the reference {reference!r} is not a JSON Pointer",
                    location=location,
                    hint="~ is written ~0 and / is written ~1",
                )
            token = token.replace("~1", "/").replace("~0", "~")
            pointer = child(pointer, token)
            if isinstance(document, dict) and token in document:
                document = document[token]
            elif (
                isinstance(document, list)
                and _INDEX.fullmatch(token)
                and len(token) < 10
                and int(token) < len(document)
            ):
                document = document[int(token)]
            else:
                raise InvalidSchema(
                    f"the reference {reference!r} leads nowhere",
                    location=location,
                    hint=f"there is nothing at {pointer}",
                )
        self._documents.setdefault(pointer, document)
        return pointer
