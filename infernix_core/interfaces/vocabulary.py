"""A model's token domain as constraint and sampling see it."""

from __future__ import annotations

import enum
from functools import cached_property

from attrs import define, field

from infernix_core.errors import IntegrityError


class TokenClass(enum.IntEnum):
    """What a token may be used for.

    Attributes:
        TEXT: Ordinary text: matched by its bytes.
        FRAMING: A control token of the output framing, such as ``</think>``: matched by its id only.
        END: Ends the output.
        FORBIDDEN: Never generated: padding, media, turn openers.
    """

    TEXT = 0
    FRAMING = 1
    END = 2
    FORBIDDEN = 3


@define(eq=False, slots=False)
class Vocabulary:
    """Token bytes and classes of one model. Immutable; compared and hashed by identity.

    Attributes:
        token_bytes: The raw bytes of each token id (length V). Not display text: a token may hold part of a
            character. Only TEXT tokens are matched by them.
        classes: One :class:`TokenClass` per id (length V).
        framing: Names of the framing tokens, such as ``{"</think>": 248069}``.
    """

    token_bytes: tuple[bytes, ...] = field(repr=False)
    classes: tuple[TokenClass, ...] = field(repr=False)
    framing: dict[str, int] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        if len(self.token_bytes) != len(self.classes):
            raise IntegrityError("token bytes and classes differ in length")
        for token, (raw, kind) in enumerate(zip(self.token_bytes, self.classes, strict=True)):
            if kind is TokenClass.TEXT and not raw:
                raise IntegrityError(f"text token {token} has no bytes")

    @property
    def size(self) -> int:
        """V, the number of ids that the tokenizer can address."""
        return len(self.token_bytes)

    @property
    def words(self) -> int:
        """32-bit words in one token mask: ceil(V / 32)."""
        return -(-self.size // 32)

    def ids(self, *classes: TokenClass) -> tuple[int, ...]:
        """The ids of the given classes, ascending."""
        wanted = set(classes)
        return tuple(token for token, kind in enumerate(self.classes) if kind in wanted)

    @cached_property
    def end_ids(self) -> frozenset[int]:
        """Ids that end the output."""
        return frozenset(self.ids(TokenClass.END))

    @classmethod
    def of_bytes(cls) -> Vocabulary:
        """256 single-byte text tokens and one end token (id 256): for checking texts without a model."""
        return cls(
            token_bytes=(*(bytes([value]) for value in range(256)), b""),
            classes=(*(TokenClass.TEXT for _ in range(256)), TokenClass.END),
        )
