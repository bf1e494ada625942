"""Scripts that lead an output through calls, and into what a policy forbids, so that its masks must deviate from them.

A script is a row of parts, and each part has a kind. What a cell says of kinds (:meth:`Cell.admits`) is all that is known
here of policies: an output that follows its script leaves it exactly in the first part that is not admitted.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import accumulate

import torch
from attrs import define, field, frozen
from torch import Tensor

from infernix_core.engine.request import FinishReason, GenerationResult
from infernix_core.interfaces.constraints import JsonSchema
from infernix_core.interfaces.frontend import OutputRequest, StartPhase
from infernix_core.interfaces.model import ForwardBatch, StateViews
from infernix_core.interfaces.tools import ToolChoice, ToolDeclaration, ToolMode, read_tools
from infernix_core.interfaces.vocabulary import TokenClass, Vocabulary
from infernix_core.testing.spelling import spelt
from infernix_core.testing.table_target import TableTarget
from tests.end_to_end.tool_outputs import COIN, choice_of, tools
from tests.plugins.openai.calling import call

JSON = '{"side":"heads"}'
ARGUMENTS = {
    "lookup": {"city": "Ulm", "days": "3"},
    "run": {"command": "ls -l"},
}
#: Arguments that no strict tool takes, each with the same framing.
WRONG = {
    "lookup": {"city": "Ulm", "days": "300"},
    "run": {"command": "LS"},
}
CLOSE = "</function>\n</tool_call>"


@frozen
class Cell:
    """One combination of what a request may ask for."""

    policy: str
    strict: bool
    parallel: bool
    json_output: bool
    thinks: bool
    drafted: bool

    def __str__(self) -> str:
        flags = ("strict", "parallel", "json_output", "thinks", "drafted")
        return "-".join([self.policy, *[flag for flag in flags if getattr(self, flag)]])

    @property
    def choice(self) -> ToolChoice:
        return choice_of(self.policy, parallel=self.parallel)

    @property
    def declared(self) -> tuple[ToolDeclaration, ...]:
        return read_tools(tools(strict=self.strict))

    @property
    def phase(self) -> StartPhase:
        return StartPhase.REASONING if self.thinks else StartPhase.CONTENT

    @property
    def request(self) -> OutputRequest:
        return OutputRequest(
            JsonSchema.of(COIN, compact=True) if self.json_output else None, self.choice
        )

    @property
    def free(self) -> bool:
        """Nothing is constrained: all that AUTOMATIC enforces is asked for by name, and nothing is."""
        return (
            self.policy == "automatic"
            and self.parallel
            and not self.strict
            and not self.json_output
        )

    @property
    def tool(self) -> str:
        """A tool that may be called, if any may."""
        return (self.choice.allowed_names or ("lookup",))[0]

    @property
    def other(self) -> str:
        """Another one, which some choices do not allow."""
        return "lookup" if self.tool == "run" else "run"

    def admits(self, kind: str) -> bool:
        """Whether a part of this kind may come where scripts have it."""
        choice = self.choice
        calls, required = choice.mode is not ToolMode.NONE, choice.mode is ToolMode.REQUIRED
        kinds = {
            "thoughts": True,
            "mark in thoughts": calls,
            "call": calls,
            "another tool": calls and choice.allowed_names is None,
            "undeclared parameter": not self.strict,
            "unfit value": not self.strict,
            "repeated parameter": False,
            "repeated undeclared parameter": False,
            "second call": choice.parallel,
            "text": not required and not self.json_output,
            "text after a call": False,
            "JSON": not required,
            "JSON after a call": False,
            "call after JSON": calls and not self.json_output,
            "end": True,
        }
        return self.free or kinds[kind]

    def due(self) -> set[str]:
        """What :func:`met` finds in the outputs of all scripts, whatever else it finds."""
        choice = self.choice
        found = set()
        if choice.mode is not ToolMode.NONE:
            found |= {"call", "arguments", "cut call"}
            if choice.parallel:
                found.add("two calls")
        if choice.mode is not ToolMode.REQUIRED:
            found.add("JSON" if self.json_output else "text")
            if choice.mode is ToolMode.AUTO and not self.json_output:
                found.add("text and call")
        if self.thinks:
            found.add("thoughts")
        return found


def parameters(**values: str) -> str:
    """Arguments as the model writes them."""
    written = call("f", **values)
    return written.removeprefix("<tool_call>\n<function=f>\n").removesuffix(CLOSE)


def parts(cell: Cell) -> dict[str, list[tuple[str, str]]]:
    """The scripts of a cell by name, as parts with their kinds."""
    arguments = ARGUMENTS[cell.tool]
    whole = call(cell.tool, **arguments)
    opened = whole.removesuffix(CLOSE)
    repeated = parameters(**dict(list(arguments.items())[:1]))
    undeclared = parameters(k="[1, 2]")
    other = call(cell.other, **ARGUMENTS[cell.other])
    unfit = call(cell.tool, **WRONG[cell.tool])
    found = {
        "one": [("call", whole)],
        "two": [("call", whole), ("second call", f"\n{whole}")],
        "three": [("call", whole), *[("second call", f"\n{whole}")] * 2],
        "repeated": [("call", opened), ("repeated parameter", repeated), ("end", CLOSE)],
        "undeclared": [
            ("call", opened),
            ("undeclared parameter", undeclared),
            ("repeated undeclared parameter", undeclared),
            ("end", CLOSE),
        ],
        "unfit": [("call", whole[: whole.index("=")]), ("unfit value", unfit[whole.index("=") :])],
        "other": [("another tool", other)],
        "text": [("text", "I look.")],
        "text, call": [("text", "I look.\n\n"), ("call", whole)],
        "call, text": [("call", whole), ("text after a call", "\nDone.")],
        "call, JSON": [("call", whole), ("JSON after a call", f"\n{JSON}")],
        "JSON": [("JSON", JSON)],
        "JSON, call": [("JSON", JSON), ("call after JSON", f"\n{whole}")],
    }
    if cell.thinks:
        found = {name: [("thoughts", "Hm.\n</think>\n\n"), *rest] for name, rest in found.items()}
        marks = [("thoughts", "Hm, "), ("mark in thoughts", "<tool_call>\n")]
        found["marks"] = [*marks, ("thoughts", "Hm.\n</think>\n\n"), ("call", whole)]
        found["long"] = [("thoughts", "Hm, " * 20 + "\n</think>\n\n"), ("call", whole)]
    return found


#: After so many tokens that were not the script's next, its parts are left for its closing.
PATIENCE = 4


@frozen(eq=False)
class Script:
    """Tokens to follow, and how to go on where a mask or chance chose others: a place is where an output is.

    Attributes:
        kinds: Of each token of the parts, and of the END behind them.
        tokens: Those, then the closing: what ends any call, and END. It is repeated until the output ends.
        close: The token that closes thoughts.
        behind: The position behind it, if the parts have it.
    """

    kinds: tuple[str, ...]
    tokens: tuple[int, ...]
    close: int
    behind: int | None

    def next(self, place: int) -> int:
        """The token to say."""
        return self.tokens[place // PATIENCE]

    def kind(self, place: int) -> str:
        """Of this token, among the parts."""
        return self.kinds[place // PATIENCE]

    def after(self, place: int, token: int) -> int:
        """The place after a token, the script's or another."""
        at, missed = divmod(place, PATIENCE)
        closing = len(self.kinds)
        if token == self.tokens[at]:
            at, missed = at + 1, 0
        elif token == self.close and self.behind is not None:
            at, missed = self.behind, 0
        elif at >= closing:
            at += 1
        elif missed + 1 < PATIENCE:
            missed += 1
        else:
            at, missed = closing, 0
        return (at if at < len(self.tokens) else closing) * PATIENCE + missed

    def ahead(self, place: int, count: int) -> list[int]:
        """A place, and those after it along the script: so many."""
        found = [place]
        while len(found) < count:
            found.append(self.after(found[-1], self.next(found[-1])))
        return found

    def left(self, tokens: Iterable[int]) -> int | None:
        """The place of the first token that is not the script's; ``None`` where all are."""
        for position, (token, wanted) in enumerate(
            zip(tokens, self.tokens[: len(self.kinds)], strict=False)
        ):
            if token != wanted:
                return position * PATIENCE
        return None


@cache
def spell_line(
    text: str, vocabulary: Vocabulary, choose: Callable[[Sequence[int]], int]
) -> tuple[int, ...]:
    """Text tokens of a line."""
    return tuple(spelt(text.encode(), vocabulary, choose))


def spell(
    text: str, vocabulary: Vocabulary, choose: Callable[[Sequence[int]], int]
) -> Iterator[int]:
    """Tokens of a text; spellings of control tokens are these."""
    for piece in re.split(f"({'|'.join(map(re.escape, vocabulary.framing))})", text):
        if piece in vocabulary.framing:
            yield vocabulary.framing[piece]
        else:
            for line in piece.splitlines(keepends=True):
                yield from spell_line(line, vocabulary, choose)


def scripts(
    cell: Cell, vocabulary: Vocabulary, choose: Callable[[Sequence[int]], int] = max
) -> dict[str, Script]:
    """The scripts of a cell by name.

    Args:
        cell: Says which.
        vocabulary: Spells them.
        choose: The length of each token; see ``spelt``.
    """
    end, close = min(vocabulary.end_ids), vocabulary.framing["</think>"]
    closing = ("</think>\n\n" if cell.thinks else "") + "\n</parameter>\n" + CLOSE
    found = {}
    for name, row in parts(cell).items():
        tokens = [(kind, token) for kind, text in row for token in spell(text, vocabulary, choose)]
        tokens.append(("end", end))
        kinds, ids = zip(*tokens, strict=True)
        behind = ids.index(close) + 1 if close in ids else None
        found[name] = Script(kinds, (*ids, *spell(closing, vocabulary, choose), end), close, behind)
    return found


def forbidden(cell: Cell, script: Script) -> str | None:
    """The kind at which an output that follows its script must leave it; ``None`` when it need not."""
    return next((kind for kind in script.kinds if not cell.admits(kind)), None)


def met(result: GenerationResult) -> Iterator[str]:
    """What occurs in an output."""
    whole = [one.arguments_json for one in result.tool_calls if one.arguments_json is not None]
    ended = result.finish_reason is FinishReason.STOP
    if whole:
        yield "call"
    if len(whole) > 1:
        yield "two calls"
    if any(arguments != "{}" for arguments in whole):
        yield "arguments"
    if len(whole) < len(result.tool_calls):
        yield "cut call"
    if result.text and whole:
        yield "text and call"
    if ended and result.text and not result.tool_calls:
        yield "text"
        if result.text.strip() in (JSON, JSON.replace("heads", "tails")):
            yield "JSON"
    if result.reasoning:
        yield "thoughts"


@cache
def asking(vocabulary: Vocabulary) -> int:
    """A token that no prompt has of itself: as many as end the prompt ask a :class:`SteeredTarget` for its script."""
    return max(vocabulary.ids(TokenClass.FORBIDDEN))


@define(eq=False)
class SteeredTarget(TableTarget):
    """Says one of many scripts, the first where one :func:`asking` token ends the prompt, the second where two do.

    The script's next token is all but certain where it is legal, at temperature 1 too; of other tokens each place likes some
    better.
    """

    scripts: Sequence[Script]
    bias: float = field(default=14.0, kw_only=True)
    _start: int = field(init=False)
    _bases: list[int] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._start = asking(self.vocabulary)
        tokens = [token for script in self.scripts for token in script.tokens]
        lengths = [len(script.tokens) for script in self.scripts]
        # An integer is one more than a place of all scripts behind each other.
        self._bases = [1 + PATIENCE * before for before in accumulate(lengths[:-1], initial=0)]
        generator = torch.Generator().manual_seed(0)
        self.table = torch.randn((len(tokens), self.logits_width), generator=generator)
        self.table[torch.arange(len(tokens)), torch.tensor(tokens)] += self.bias

    def absorb(self, digest: int, token: int) -> int:
        """See ``TableTarget``."""
        if token == self._start:
            return self._bases[bisect_right(self._bases, digest)]
        if not digest:
            return 0
        index = bisect_right(self._bases, digest) - 1
        base = self._bases[index]
        return base + self.scripts[index].after(digest - base, token)

    def rows(
        self, digests: Sequence[int], batch: ForwardBatch, row: int, views: StateViews
    ) -> Tensor:
        """See ``TableTarget``."""
        return torch.tensor(digests).sub(1).div(PATIENCE, rounding_mode="floor").clamp(min=0)
