"""Every error that Infernix raises on purpose.

Request errors say what is wrong, where, and what would be accepted; they are raised before a request
enters the queue. Integrity errors are faults of the program and are never dressed up as user errors.
"""

from __future__ import annotations

from attrs import field, frozen


@frozen
class Location:
    """Where in a request something is wrong. Only the parts that apply are set.

    Attributes:
        field: The option or wire field, such as ``--regex`` or ``response_format``.
        line: Line in a grammar source, from 1.
        column: Column in that line, from 1, in characters.
        offset: Character offset in a regex, from 0.
        pointer: JSON Pointer into a schema; ``""`` is its root.
        keyword: The schema keyword at that pointer.
        tool: Name of the tool whose arguments the schema describes.
    """

    field: str | None = None
    line: int | None = None
    column: int | None = None
    offset: int | None = None
    pointer: str | None = None
    keyword: str | None = None
    tool: str | None = None

    def __str__(self) -> str:
        parts = []
        if self.field is not None:
            parts.append(self.field)
        if self.tool is not None:
            parts.append(f"tool {self.tool!r}")
        if self.line is not None:
            where = f"line {self.line}"
            parts.append(where if self.column is None else f"{where}, column {self.column}")
        if self.offset is not None:
            parts.append(f"offset {self.offset}")
        if self.pointer is not None:
            parts.append(f"at {self.pointer!r}" if self.pointer else "at the root")
        if self.keyword is not None:
            parts.append(f"keyword {self.keyword!r}")
        return ", ".join(parts)


class InfernixError(Exception):
    """Base of every error that Infernix raises on purpose."""


class RequestError(InfernixError):
    """The request cannot be served as it stands.

    Args:
        message: What is wrong, in one line.
        location: Where it is.
        hint: What would be accepted.
    """

    def __init__(
        self, message: str, *, location: Location | None = None, hint: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.location = location
        self.hint = hint

    def __str__(self) -> str:
        where = str(self.location) if self.location is not None else ""
        text = f"{where}: {self.message}" if where else self.message
        return f"{text} ({self.hint})" if self.hint else text


class InvalidPrompt(RequestError):
    """The prompt cannot be rendered, encoded or placed into the context."""


def invalid_prompt(where: str, message: str, hint: str | None = None) -> InvalidPrompt:
    """A refusal of one field of a prompt, such as ``messages[2].content``."""
    return InvalidPrompt(message, location=Location(field=where), hint=hint)


class InvalidOption(RequestError):
    """An option has an impossible value or contradicts another one."""


class ContextOverflow(InvalidPrompt):
    """The prompt leaves no room in the model's context."""


class ConstraintError(RequestError):
    """The output constraint cannot be used."""


class InvalidGrammar(ConstraintError):
    """A GBNF source is not well formed or uses a form that is not admitted."""


class InvalidRegex(ConstraintError):
    """A regular expression is not well formed or uses a form that is not admitted."""


class InvalidChoice(ConstraintError):
    """A list of choices cannot be used."""


class InvalidSchema(ConstraintError):
    """A JSON Schema document is not JSON or not a schema."""


class UnsupportedSchema(ConstraintError):
    """A schema uses an assertion that cannot be enforced, so it is refused, not weakened."""


class UnsatisfiableSchema(ConstraintError):
    """No JSON value satisfies the schema."""


class ConstraintDeadEnd(ConstraintError):
    """The constraint leaves no legal next token."""


class ConstraintTooSlow(ConstraintError):
    """A mask of the constraint takes longer than the engine allows."""


class CheckpointError(InfernixError):
    """A checkpoint directory cannot be read, or its parts contradict each other."""


class PluginError(InfernixError):
    """A plugin is missing, doubled, or does not keep to its hook."""


class EngineUnavailable(InfernixError):
    """The engine accepts no work: it is closed, or an integrity error stopped it."""


class QueueFull(InfernixError):
    """Too many requests are outstanding; try again later."""


class DeadlineExceeded(InfernixError):
    """The request's pending deadline passed before it could be queued or admitted."""


class RequestCancelled(InfernixError):
    """Nobody wanted the request any more while it was prepared."""


class IntegrityError(InfernixError):
    """An invariant of the program is broken. Never the user's fault."""


class NonFiniteLogits(IntegrityError):
    """The model's logits leave no finite selection for one row."""


@frozen
class ErrorReport:
    """An error as a value, for results and logs.

    Attributes:
        kind: The class name.
        message: The full one-line text.
    """

    kind: str
    message: str
    error: InfernixError = field(eq=False, repr=False)
