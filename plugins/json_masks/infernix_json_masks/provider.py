"""The mask provider: binds to a vocabulary, and compiles the languages whose contents are JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from attrs import define, evolve, field

from infernix_constraints.json_schema import (
    ArrayShape,
    ArrayValue,
    ObjectShape,
    ObjectValue,
    ReducedSchema,
    reduce_schema,
)
from infernix_constraints.json_schema.arguments import reduce_arguments
from infernix_constraints.json_schema.describe import describe_schema
from infernix_constraints.json_schema.graph import Note
from infernix_constraints.strings.limits import TooManyStates
from infernix_core.errors import ConstraintError, Location, UnsupportedSchema
from infernix_core.interfaces.constraints import JsonObject, JsonSchema, OutputConstraint
from infernix_core.interfaces.language import (
    Content,
    Language,
    Literal,
    MemberFraming,
    Members,
    sequence,
    walk,
)
from infernix_core.interfaces.mask_provider import never
from infernix_core.interfaces.vocabulary import Vocabulary
from infernix_json_masks.framing import compile_language
from infernix_json_masks.matcher import JsonGrammar
from infernix_json_masks.member_plans import DeclaredMembers, MembersPlan, open_members
from infernix_json_masks.object_plans import undeclared_names
from infernix_json_masks.plans import Layout, Plans
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


#: Arguments that lead through a raw value, and the usual beginnings of its end.
_ARGUMENTS = (
    b"<parameter=a>\nb\n</parameter>\n<parameter=c>\n d, 1\n\n<e>\xc3\xa9\n</p>\n</parameter>\n</f>",
)
_DECLARED = {
    "type": "object",
    "properties": {
        "n": {"type": "integer"},
        "l": {"type": "array"},
        "o": {"type": "object"},
        "s": {"type": "string", "maxLength": 100},
    },
    "additionalProperties": False,
}
_SPACED = (
    b'<parameter=n>\n12\n</parameter>\n<parameter=l>\n["a", 1, true, {"b": "c"}]\n</parameter>\n'
    b'<parameter=o>\n{"a": "b", "c": [1, ["d"]], "e": {"f": 1}}\n</parameter>\n<parameter=s>\na\n</parameter>\n</f>',
)
_FRAMING = MemberFraming(b"<parameter=", b">\n", b"\n</parameter>", b"\n")

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
    """Whether every content of a language is JSON."""
    contents = [node.constraint for node in walk(language) if isinstance(node, Content)]
    return all(isinstance(each, JsonObject | JsonSchema) for each in contents)


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
        parts = dict[str, None]()
        for node in walk(language):
            if isinstance(node, Content):
                parts[explain_schema(_source(node.constraint))] = None
            elif isinstance(node, Members) and node.schema is not None:
                whose = f"# arguments of {node.owner!r}\n" if node.owner else ""
                parts[whose + explain_schema(node.schema.source)] = None
        return "\n\n".join(parts)


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
        self.index.any_row(frozenset())
        self._walk(Content(JsonObject()), _SAMPLE)
        self._walk(Content(JsonObject(compact=True)), _SAMPLE[1:2])
        end = Literal(b"</f>")
        self._walk(sequence(Members(_FRAMING), end), _ARGUMENTS)
        self._walk(sequence(Members(_FRAMING, JsonSchema.of(_DECLARED)), end), _SPACED)
        for name, sample in _FORMATTED.items():
            self._walk(Content(JsonSchema.of({"type": "string", "format": name})), (sample,))

    def _walk(self, language: Language, samples: Iterable[bytes]) -> None:
        """Makes the masks along some texts; what no schema owns of them is kept for all."""
        row = np.zeros(self.vocabulary.words, dtype=np.int32)
        grammar = self.compile(language)
        for sample in samples:
            matcher = grammar.start()
            for byte in sample:
                matcher.fill(row)
                matcher.accept_text(bytes((byte,)))

    def compile(self, language: Language, check: Callable[[], None] = never) -> JsonGrammar:
        """Compiles a language that :func:`handles` admits; ``check`` is asked before each schema.

        Raises:
            ConstraintError: A schema is not valid or not supported, or a content is not JSON; located.
        """
        _check(language)
        maker = _Maker(check)
        point = compile_language(language, maker)
        notes = tuple(maker.notes)[:MAX_NOTES]
        return JsonGrammar(self.index, point, maker.size, notes, maker.raw_members)


@define(eq=False)
class _Maker:
    """See :class:`infernix_json_masks.framing.PlanMaker`. Equal nodes have one plan.

    Attributes:
        check: Asked before each schema.
        size: Approximate bytes of the plans.
        notes: What in their schemas asserts nothing.
        raw_members: See ``CompiledGrammar``.
    """

    check: Callable[[], None]
    size: int = _GRAMMAR_BYTES
    notes: dict[str, None] = field(factory=dict)
    raw_members: dict[str, frozenset[str]] = field(factory=dict)
    _contents: dict[Content, Plans] = field(factory=dict)
    _members: dict[Members, MembersPlan] = field(factory=dict)

    def content(self, node: Content) -> Plans:
        """The plans of a content."""
        found = self._contents.get(node)
        if found is None:
            constraint = node.constraint
            assert isinstance(constraint, JsonObject | JsonSchema)
            self.check()
            layout = Layout.COMPACT if constraint.compact else Layout.FREE
            found = Plans(self._checked(reduce_schema(_source(constraint))), layout)
            found.make()
            self._contents[node] = found
        return found

    def members(self, node: Members) -> MembersPlan:
        """The plan of an object's members."""
        found = self._members.get(node)
        if found is None:
            found = self._members[node] = self._made(node)
        return found

    def _made(self, node: Members) -> MembersPlan:
        framing = node.framing
        if node.schema is None:
            return open_members(framing)
        self.check()
        try:
            arguments = reduce_arguments(node.schema.source, framing.end.decode())
            self._checked(arguments.schema, f"tool {node.owner!r}: " if node.owner else "")
        except ConstraintError as error:
            location = error.location if error.location is not None else Location()
            error.location = evolve(location, tool=node.owner)
            raise
        if node.owner is not None:
            self.raw_members[node.owner] = arguments.raw
        plan = DeclaredMembers(framing, arguments)
        plan.plans.make()
        return plan

    def _checked(self, schema: ReducedSchema, whose: str = "") -> ReducedSchema:
        _check_limits(schema)
        self.notes.update(dict.fromkeys(whose + note_text(note) for note in schema.notes))
        self.size += _NODE_BYTES * len(schema.nodes)
        return schema


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
