"""What a request may demand of its output's content."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from attrs import field, frozen

from infernix_core.errors import InvalidChoice, InvalidOption, InvalidSchema
from infernix_core.exact_json import json_text


class OutputConstraint:
    """Base of the content constraints: Grammar, JsonObject, JsonSchema, Choice, Regex.

    Constraints are values: equal constraints share one compiled grammar. They own their source text;
    nothing reads files behind them, and nothing is parsed before it is compiled.
    """

    __slots__ = ()

    #: The constraint's kind, as reports, logs and metrics name it.
    kind: str

    @property
    def sources(self) -> tuple[str, ...]:
        """The texts that the constraint owns."""
        return ()


def _text(what: str) -> Any:
    def check(_instance: object, _attribute: object, value: object) -> None:
        if not isinstance(value, str):
            raise InvalidOption(
                f"{what} must be a string, not {type(value).__name__}", hint="pass its source text"
            )

    return check


def _flag(_instance: object, attribute: Any, value: object) -> None:
    if not isinstance(value, bool):
        raise InvalidOption(f"{attribute.name} must be true or false, not {value!r}")


@frozen
class Grammar(OutputConstraint):
    """GBNF text whose entry rule is ``root``."""

    source: str = field(validator=_text("a grammar"))
    kind = "grammar"

    @property
    def sources(self) -> tuple[str, ...]:
        """See :class:`OutputConstraint`."""
        return (self.source,)


@frozen
class JsonObject(OutputConstraint):
    """Any JSON object.

    Attributes:
        compact: No blanks between tokens. The default admits runs of up to 32, since many models write
            JSON worse than they could when they are kept from the layout that they prefer.
    """

    compact: bool = field(default=False, kw_only=True, validator=_flag)
    kind = "json_object"


@frozen
class JsonSchema(OutputConstraint):
    """A JSON Schema document, as its source text (member order counts).

    Attributes:
        compact: See :class:`JsonObject`.
    """

    source: str = field(validator=_text("a JSON Schema"))
    compact: bool = field(default=False, kw_only=True, validator=_flag)
    kind = "json_schema"

    @property
    def sources(self) -> tuple[str, ...]:
        """See :class:`OutputConstraint`."""
        return (self.source,)

    @classmethod
    def of(cls, schema: Mapping[str, Any] | bool | str, *, compact: bool = False) -> JsonSchema:
        """A schema from its text or from a parsed document, whose member order is kept.

        Raises:
            InvalidSchema: The document holds something that JSON cannot express.
        """
        if isinstance(schema, str):
            return cls(schema, compact=compact)
        try:
            return cls(json_text(schema), compact=compact)
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidSchema(f"the schema is not JSON: {error}") from error


@frozen
class Regex(OutputConstraint):
    """An ECMAScript-flavoured expression that the whole content matches."""

    pattern: str = field(validator=_text("a regex"))
    kind = "regex"

    @property
    def sources(self) -> tuple[str, ...]:
        """See :class:`OutputConstraint`."""
        return (self.pattern,)


def _literals(value: Iterable[str]) -> tuple[str, ...]:
    if isinstance(value, str):
        raise InvalidChoice(
            "a choice takes a list of strings, not one string", hint="wrap it in a list"
        )
    literals = tuple(value)
    for index, literal in enumerate(literals):
        if not isinstance(literal, str):
            raise InvalidChoice(
                f"choice {index} is not a string but {type(literal).__name__}", hint="quote it"
            )
    if not literals:
        raise InvalidChoice("the list of choices is empty", hint="give at least one string")
    return tuple(sorted(set(literals)))


@frozen
class Choice(OutputConstraint):
    """One of a finite set of strings, kept exactly.

    Attributes:
        literals: Deduplicated and sorted: order carries no weight and is no part of the identity.
    """

    literals: tuple[str, ...] = field(converter=_literals)
    kind = "choice"

    @property
    def sources(self) -> tuple[str, ...]:
        """See :class:`OutputConstraint`."""
        return self.literals
