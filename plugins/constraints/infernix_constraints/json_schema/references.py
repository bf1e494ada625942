"""References inside one document: pointers, anchors and identifiers. Nothing is ever fetched."""

from __future__ import annotations

import re
from urllib.parse import unquote_to_bytes, urldefrag, urljoin

from attrs import define, field

from infernix_constraints.json_schema.keywords import (
    DRAFT_04,
    DRAFT_07,
    DRAFT_2019_09,
    DRAFT_2020_12,
)
from infernix_constraints.json_schema.source import Json, child
from infernix_core.errors import InvalidSchema, Location, UnsupportedSchema

_BAD_ESCAPE = re.compile(r"~(?![01])")
_INDEX = re.compile(r"0|[1-9][0-9]*")


@define(eq=False)
class References:
    """Where the references of a document lead.

    Attributes:
        root: The document.
        dialect: Its dialect.
    """

    root: Json
    dialect: int
    #: Positions whose identifier sets another base, with that base; the root is one of them.
    _bases: dict[str, str] = field(init=False, factory=lambda: {"": ""})
    #: Positions by base and plain name; None where a name is given twice.
    _anchors: dict[tuple[str, str], str | None] = field(init=False, factory=dict)
    #: Names that dynamic references may find, by how often they are given.
    _dynamic: dict[str, int] = field(init=False, factory=dict)
    _documents: dict[str, Json] = field(init=False, factory=dict)

    def enter(self, pointer: str, schema: Json) -> None:
        """Takes in the identifiers of one position; those around it were taken in before."""
        if not isinstance(schema, dict):
            return
        identifier = schema.get("id" if self.dialect == DRAFT_04 else "$id")
        beside_reference = self.dialect <= DRAFT_07 and isinstance(schema.get("$ref"), str)
        if isinstance(identifier, str) and not beside_reference:
            url, name = urldefrag(identifier)
            if url:
                self._bases[pointer] = _joined(self._base(pointer)[1], url)
            if name and self.dialect <= DRAFT_07 and not name.startswith("/"):
                self._name(pointer, name)
        if self.dialect >= DRAFT_2019_09 and isinstance(schema.get("$anchor"), str):
            self._name(pointer, str(schema["$anchor"]))
        if self.dialect == DRAFT_2020_12 and isinstance(schema.get("$dynamicAnchor"), str):
            name = str(schema["$dynamicAnchor"])
            self._dynamic[name] = self._dynamic.get(name, 0) + 1
            self._name(pointer, name)
        if self.dialect == DRAFT_2019_09 and schema.get("$recursiveAnchor") is True:
            self._dynamic[""] = self._dynamic.get("", 0) + 1

    def document(self, pointer: str) -> Json:
        """What stands at a place that a reference leads to."""
        return self._documents[pointer]

    def resolve(self, reference: str, source: str, keyword: str) -> str:
        """The position that a reference of the position ``source`` leads to.

        Raises:
            InvalidSchema: It is malformed or leads nowhere.
            UnsupportedSchema: It leaves the document, or may mean several places.
        """
        location = Location(pointer=source, keyword=keyword)
        url, encoded = urldefrag(reference)
        start, base = self._base(source)
        if url:
            target = _joined(base, url)
            starts = [pointer for pointer, known in self._bases.items() if known == target]
            if len(starts) != 1 or not target:
                raise UnsupportedSchema(
                    f"the reference {reference!r} leaves the document",
                    location=location,
                    hint="references of the form #/$defs/name",
                )
            start, base = starts[0], target
        try:
            fragment = unquote_to_bytes(encoded).decode()
        except UnicodeError as error:
            raise InvalidSchema("the reference is not UTF-8", location=location) from error
        dynamic = self._dynamic.get(fragment, 0) if keyword != "$ref" else 0
        if dynamic > 1:
            raise UnsupportedSchema(
                f"{keyword} may lead to any of {dynamic} places",
                location=location,
                hint="$ref to one of them",
            )
        if fragment and not fragment.startswith("/"):
            return self._anchor(base, fragment, reference, location)
        if start and not url:
            raise UnsupportedSchema(
                f"an identifier at {start} moves the reference {reference!r}",
                location=location,
                hint="leave the identifier out, which is only a name there",
            )
        return self._pointer(start, fragment, reference, location)

    def _anchor(self, base: str, name: str, reference: str, location: Location) -> str:
        if (base, name) not in self._anchors:
            raise InvalidSchema(
                f"the reference {reference!r} leads nowhere",
                location=location,
                hint=f"there is no anchor {name!r}",
            )
        target = self._anchors[base, name]
        if target is None:
            raise UnsupportedSchema(
                f"the anchor {name!r} is given more than once", location=location
            )
        return target

    def _pointer(self, start: str, fragment: str, reference: str, location: Location) -> str:
        pointer, document = "", self.root
        for token in (*start.split("/")[1:], *fragment.split("/")[1:]):
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
        self._documents[pointer] = document
        return pointer

    def _name(self, pointer: str, name: str) -> None:
        key = self._base(pointer)[1], name
        self._anchors[key] = None if key in self._anchors else pointer

    def _base(self, pointer: str) -> tuple[str, str]:
        """The nearest position around that sets a base, and the base."""
        while pointer not in self._bases:
            pointer = pointer.rpartition("/")[0]
        return pointer, self._bases[pointer]


def _joined(base: str, url: str) -> str:
    try:
        return urljoin(base, url)
    except ValueError:
        return url
