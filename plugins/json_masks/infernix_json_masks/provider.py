"""The mask provider: binds to a vocabulary, and compiles the languages whose contents are JSON."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from attrs import define, field

from infernix_constraints.json_schema import (
    ArrayShape,
    ArrayValue,
    ObjectShape,
    ObjectValue,
    ReducedSchema,
    reduce_schema,
)
from infernix_constraints.json_schema.describe import describe_schema
from infernix_constraints.json_schema.graph import Note
from infernix_constraints.strings.limits import TooManyStates
from infernix_core.errors import ConstraintError, Location, UnsupportedSchema
from infernix_core.interfaces.constraints import JsonObject, JsonSchema, OutputConstraint
from infernix_core.interfaces.language import Content, Language, walk
from infernix_core.interfaces.vocabulary import Vocabulary
from infernix_json_masks.framing import compile_language
from infernix_json_masks.matcher import JsonGrammar
from infernix_json_masks.object_plans import undeclared_names
from infernix_json_masks.plans import Plans
from infernix_json_masks.vocabulary import TokenIndex

#: JsonObject as a schema.
_OBJECT = '{"type": "object"}'

#: Constant objects and arrays among the items of one array.
MAX_COMPOSITES = 256

#: Notes that a grammar carries.
MAX_NOTES = 32

#: Approximate bytes of a grammar before it is used, and of one node of its schema.
_GRAMMAR_BYTES = 2_000
_NODE_BYTES = 400


#: A text that leads through the usual places of JSON.
_SAMPLE = (
    b'{"a": "b", "c": [1, -2.5e3, true], "d": {"e": null, "f": []}, "g": "h\\n\\u00e9 \xc3\xa9"}',
    b'{"a":"b","c":[1,[2],{}],"d":{"e":{"f":[{"g":"h"},"i"]}}}',
    b'{\n  "a": [\n    "b",\n    {\n      "c": 1\n    }\n  ]\n}',
)


#: One text of each format that asserts.
_FORMATTED = {
    "date-time": b'"2024-05-06T12:34:56.789Z"',
    "time": b'"12:34:56+01:00"',
    "date": b'"2024-05-06"',
    "duration": b'"P1DT12H"',
    "email": b'"ada.l@example.com"',
    "hostname": b'"www.example.com"',
    "uri": b'"https://www.example.com/a/b.html?c=d#e"',
    "ipv4": b'"192.168.0.10"',
    "ipv6": b'"2001:db8::ff00:42:8329"',
    "uuid": b'"123e4567-e89b-12d3-a456-426614174000"',
}


def handles(language: Language) -> bool:
    """Whether a language has contents, and every one of them is JSON."""
    contents = [node.constraint for node in walk(language) if isinstance(node, Content)]
    return bool(contents) and all(isinstance(each, JsonObject | JsonSchema) for each in contents)


class JsonMaskProvider:
    """See :class:`infernix_core.interfaces.mask_provider.MaskProvider`."""

    def bind(self, vocabulary: Vocabulary) -> JsonMasks:
        """Prepares a vocabulary; its words are read when they are first needed."""
        return JsonMasks(vocabulary)

    def explain(self, language: Language) -> str:
        """The reduced form of every schema in a language, for people.

        Raises:
            ConstraintError: As :meth:`JsonMasks.compile`.
        """
        _check(language)
        contents = (node for node in walk(language) if isinstance(node, Content))
        schemas = dict.fromkeys(_source(node.constraint) for node in contents)
        return "\n\n".join(explain_schema(source) for source in schemas)


@define(eq=False)
class JsonMasks:
    """See :class:`infernix_core.interfaces.mask_provider.BoundMaskProvider`."""

    vocabulary: Vocabulary
    index: TokenIndex = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.index = TokenIndex(self.vocabulary)

    def warm_up(self) -> None:
        """Reads the vocabulary's words, and what all of JSON and the formats make of them; some seconds for
        248 thousand tokens.
        """
        self._walk(JsonObject(), _SAMPLE)
        self._walk(JsonObject(compact=True), _SAMPLE[1:2])
        for name, sample in _FORMATTED.items():
            self._walk(JsonSchema.of({"type": "string", "format": name}), (sample,))

    def _walk(self, constraint: OutputConstraint, samples: Iterable[bytes]) -> None:
        """Makes the masks along some texts; what no schema owns of them is kept for all."""
        row = np.zeros(self.vocabulary.words, dtype=np.int32)
        grammar = self.compile(Content(constraint))
        for sample in samples:
            matcher = grammar.start()
            for byte in sample:
                matcher.fill(row)
                matcher.accept_text(bytes((byte,)))

    def compile(self, language: Language) -> JsonGrammar:
        """Compiles a language that :func:`handles` admits.

        Raises:
            ConstraintError: A schema is not valid or not supported, or a content is not JSON; located.
        """
        _check(language)
        size, notes = _GRAMMAR_BYTES, dict[str, None]()

        def content(node: Content) -> Plans:
            nonlocal size
            constraint = node.constraint
            assert isinstance(constraint, JsonObject | JsonSchema)
            schema = reduce_schema(_source(constraint))
            _check_limits(schema)
            notes.update(dict.fromkeys(map(note_text, schema.notes)))
            size += _NODE_BYTES * len(schema.nodes)
            plans = Plans(schema, constraint.compact)
            plans.make()
            return plans

        point = compile_language(language, content)
        return JsonGrammar(self.index, point, size, tuple(notes)[:MAX_NOTES])


def explain_schema(source: str) -> str:
    """A schema's reduced form, and what in it asserts nothing, for people.

    Raises:
        ConstraintError: It is not valid or not supported.
    """
    schema = reduce_schema(source)
    return "\n".join([describe_schema(schema), *(f"# {note_text(note)}" for note in schema.notes)])


def note_text(note: Note) -> str:
    """A note as one line."""
    where = f"at {note.pointer!r}" if note.pointer else "at the root"
    return f"{where}, keyword {note.keyword!r}: {note.text}"


def _source(constraint: OutputConstraint) -> str:
    return constraint.source if isinstance(constraint, JsonSchema) else _OBJECT


def _check_limits(schema: ReducedSchema) -> None:
    """Refuses what would make single masks slow, and makes what may be too large before anything needs it."""
    for shapes in schema.nodes:
        for shape in shapes:
            if isinstance(shape, ObjectShape):
                _check_names(shape)
            elif isinstance(shape, ArrayShape) and shape.unique is not None:
                found = sum(isinstance(each, ArrayValue | ObjectValue) for each in shape.unique)
                if found > MAX_COMPOSITES:
                    raise UnsupportedSchema(
                        f"{found} constant objects and arrays, each at most once, are too many",
                        location=Location(keyword="uniqueItems"),
                        hint=f"at most {MAX_COMPOSITES}",
                    )


def _check_names(shape: ObjectShape) -> None:
    for other in shape.others:
        try:
            undeclared_names(shape, other)
        except TooManyStates as error:
            raise UnsupportedSchema(
                "the names of undeclared members, without the declared ones, take too large an automaton",
                hint="simpler patternProperties or propertyNames",
            ) from error


def _check(language: Language) -> None:
    for node in walk(language):
        if isinstance(node, Content) and not isinstance(node.constraint, JsonObject | JsonSchema):
            raise ConstraintError(
                f"this mask provider knows JSON alone, not {node.constraint.kind}",
                location=Location(field=node.constraint.kind),
                hint="use the mask provider xgrammar",
            )
