"""The tokenizer: byte-level BPE text, and control tokens that no text can spell.

``tokenizer.json`` recognises its added tokens wherever their spelling occurs. Here they are taken out of the
library's sight: text is always ordinary text, and control tokens enter a prompt by id alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import field, frozen
from tokenizers import Tokenizer as Engine

from infernix_core.checkpoint_files import one_line, read_json_object
from infernix_core.errors import CheckpointError, ContextOverflow, InvalidPrompt
from infernix_core.interfaces.vocabulary import TokenClass, Vocabulary

FILE = "tokenizer.json"

#: Characters of a text whose encoding holds nobody up: a few milliseconds.
SHORT = 4096

OPEN_THINK, CLOSE_THINK = "<think>", "</think>"
OPEN_CALL, CLOSE_CALL = "<tool_call>", "</tool_call>"
TURN_START, TURN_END = "<|im_start|>", "<|im_end|>"

#: Control tokens that the model writes inside its output.
FRAMING = (
    OPEN_THINK,
    CLOSE_THINK,
    OPEN_CALL,
    CLOSE_CALL,
    "<tool_response>",
    "</tool_response>",
)

#: Control tokens that end the output, whatever the configuration says.
END = (TURN_END, "<|endoftext|>")


def byte_alphabet() -> dict[str, int]:
    """The byte that each character of byte-level BPE stands for (Radford et al. 2019).

    Bytes that print stand for themselves; the other 68 are moved, in order, to U+0100 and up.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [value for value in range(256) if value not in set(printable)]
    alphabet = {chr(value): value for value in printable}
    alphabet.update({chr(0x100 + index): value for index, value in enumerate(hidden)})
    return alphabet


@frozen(eq=False)
class Tokenizer:
    """Text to ids, and the vocabulary as constraint and sampling see it.

    Attributes:
        vocabulary: Bytes and classes of ids 0 … V-1. Holes are FORBIDDEN, with no bytes.
        control: Every added token by its spelling.
        byte_ids: The text token of each single byte.
    """

    vocabulary: Vocabulary
    control: Mapping[str, int]
    byte_ids: tuple[int, ...] = field(repr=False)
    _engine: Engine = field(repr=False)
    _most_bytes: int | None = field(default=None, repr=False)

    def encode(self, text: str) -> list[int]:
        """Ids of ordinary text. A control token's spelling is text like any other.

        Raises:
            InvalidPrompt: The text holds lone surrogates, which no encoding can express.
        """
        _utf8_size(text)
        if len(text) <= SHORT:
            encoding = self._engine.encode(text, add_special_tokens=False)
        else:
            # Unlike the single call, a batch lets other threads run meanwhile.
            (encoding,) = self._engine.encode_batch([text], add_special_tokens=False)
        ids: list[int] = encoding.ids
        return ids

    def encode_parts(self, parts: Sequence[str | int], most: int | None = None) -> list[int]:
        """Ids of text parts and control token ids, in order.

        Args:
            parts: Texts and control tokens.
            most: Most ids of use. Texts that are long enough to have more are refused without being encoded.

        Raises:
            InvalidPrompt: See :meth:`encode`.
            ContextOverflow: There are more than ``most``.
        """
        if most is not None and self._most_bytes is not None:
            size = sum(_utf8_size(part) for part in parts if isinstance(part, str))
            least = -(-size // self._most_bytes) + sum(isinstance(part, int) for part in parts)
            if least > most:
                raise ContextOverflow(
                    f"the prompt's {size} bytes are at least {least} tokens, "
                    f"of which the context takes {most}",
                    hint="shorten the prompt",
                )
        ids: list[int] = []
        for part in parts:
            if isinstance(part, int):
                ids.append(part)
            elif part:
                ids.extend(self.encode(part))
        return ids

    def has_token(self, token: int) -> bool:
        """Whether an id is in range and stands for a token."""
        return 0 <= token < self.vocabulary.size and bool(self.vocabulary.token_bytes[token])


def load_tokenizer(directory: Path, eos_ids: Sequence[int], rows: int) -> Tokenizer:
    """Reads ``tokenizer.json``.

    Args:
        directory: The checkpoint.
        eos_ids: End tokens that the configuration names; they join the family's own.
        rows: Rows of the embedding matrix, which every id must lie below.

    Raises:
        CheckpointError: It is missing, not byte-level BPE, or does not fit the configuration.
    """
    document = read_json_object(directory / FILE)
    pieces = _bpe_pieces(document)
    added = _added_tokens(document)
    pieces = {piece: token for piece, token in pieces.items() if piece not in added}
    size = 1 + max([*pieces.values(), *added.values()])
    if size > rows:
        raise CheckpointError(
            f"{FILE} has ids up to {size - 1}, but the embedding has {rows} rows "
            "('vocab_size' in config.json)"
        )
    alphabet = byte_alphabet()
    vocabulary = _vocabulary(pieces, added, size, eos_ids)
    return Tokenizer(
        vocabulary=vocabulary,
        control=added,
        byte_ids=tuple(
            pieces[character] for character in sorted(alphabet, key=alphabet.__getitem__)
        ),
        engine=_text_engine(document, pieces),
        most_bytes=_most_bytes(document, pieces),
    )


def _utf8_size(text: str) -> int:
    try:
        return len(text.encode("utf-8"))
    except UnicodeEncodeError:
        raise InvalidPrompt(
            "the text holds half of a surrogate pair, which is no Unicode character"
        ) from None


def _most_bytes(document: Mapping[str, Any], pieces: Mapping[str, int]) -> int | None:
    """Most bytes of a text that one token can stand for, if that is known."""
    longest = max(map(len, pieces))  # a piece has a character for each byte
    normalizer = document.get("normalizer")
    if '"Removed"' in json.dumps(document.get("pre_tokenizer")):
        return None
    if normalizer is None:
        return longest
    # Composition leaves a third of a text at least: three Hangul letters become one syllable.
    return 3 * longest if normalizer == {"type": "NFC"} else None


def _bpe_pieces(document: Mapping[str, Any]) -> dict[str, int]:
    model = document.get("model")
    if not isinstance(model, dict) or model.get("type", "BPE") != "BPE":
        kind = model.get("type") if isinstance(model, dict) else model
        raise CheckpointError(f"{FILE}: 'model' is of type {kind!r}; expected byte-level 'BPE'")
    if '"ByteLevel"' not in json.dumps(document.get("pre_tokenizer")):
        raise CheckpointError(
            f"{FILE}: 'pre_tokenizer' has no ByteLevel step; expected byte-level BPE"
        )
    pieces = model.get("vocab")
    if not isinstance(pieces, dict) or not all(_is_id(token) for token in pieces.values()):
        raise CheckpointError(f"{FILE}: 'model.vocab' is not an object from piece to id")
    if len(set(pieces.values())) != len(pieces):
        raise CheckpointError(f"{FILE}: 'model.vocab' gives one id to several pieces")
    return pieces


def _is_id(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _added_tokens(document: Mapping[str, Any]) -> dict[str, int]:
    tokens = document.get("added_tokens") or []
    if not isinstance(tokens, list):
        raise CheckpointError(f"{FILE}: 'added_tokens' is not a list")
    added: dict[str, int] = {}
    for index, token in enumerate(tokens):
        where = f"{FILE}: 'added_tokens[{index}]'"
        content = token.get("content") if isinstance(token, dict) else None
        if not isinstance(content, str) or not content or not _is_id(token.get("id")):
            raise CheckpointError(f"{where} is not an object with 'content' and 'id'")
        for flag in ("lstrip", "rstrip", "single_word"):
            if token.get(flag):
                raise CheckpointError(f"{where} ({content}) sets {flag!r}; expected false")
        added[content] = token["id"]
    return added


def _vocabulary(
    pieces: Mapping[str, int], added: Mapping[str, int], size: int, eos_ids: Sequence[int]
) -> Vocabulary:
    alphabet = byte_alphabet()
    token_bytes = [b""] * size
    classes = [TokenClass.FORBIDDEN] * size
    for piece, token in pieces.items():
        try:
            token_bytes[token] = bytes([alphabet[character] for character in piece])
        except KeyError as error:
            raise CheckpointError(
                f"{FILE}: piece {piece!r} (id {token}) holds {error}, no byte-level character"
            ) from None
        if piece:
            classes[token] = TokenClass.TEXT
    missing = set(range(256)) - {raw[0] for raw in token_bytes if len(raw) == 1}
    if missing:
        raise CheckpointError(
            f"{FILE}: {len(missing)} single bytes have no token, 0x{min(missing):02x} first; expected 256"
        )
    for content, token in added.items():
        token_bytes[token] = content.encode("utf-8")
        classes[token] = TokenClass.FRAMING if content in FRAMING else TokenClass.FORBIDDEN
        if content in END:
            classes[token] = TokenClass.END
    for token in eos_ids:
        if token >= size or not token_bytes[token]:
            raise CheckpointError(
                f"'eos_token_id' names {token}, which {FILE} (ids up to {size - 1}) has no token for"
            )
        classes[token] = TokenClass.END
    if TokenClass.END not in classes:
        raise CheckpointError(
            f"no end token: {FILE} has none of {', '.join(END)}, and no 'eos_token_id' is given"
        )
    framing = {content: added[content] for content in FRAMING if content in added}
    return Vocabulary(tuple(token_bytes), tuple(classes), framing)


def _text_engine(document: Mapping[str, Any], pieces: Mapping[str, int]) -> Engine:
    """The library's tokenizer without added tokens and without what it would add around a text."""
    plain = {
        **document,
        "added_tokens": [],
        "post_processor": None,
        "truncation": None,
        "padding": None,
        "model": {**document["model"], "vocab": pieces, "unk_token": None},
    }
    try:
        return Engine.from_str(json.dumps(plain, ensure_ascii=False))
    except Exception as error:  # the library raises plain Exception
        raise CheckpointError(f"{FILE} cannot be used: {one_line(error)}") from error
