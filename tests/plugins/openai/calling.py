"""The demo model's prompts, framing and vocabulary behind a script: what it says is known, calls included."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import openai
from attrs import define, evolve, frozen

from infernix_core.engine.engine import Engine
from infernix_core.engine.options import EngineOptions
from infernix_core.interfaces.frontend import PreparedPrompt, PromptInput
from infernix_core.interfaces.speculative import DraftRow
from infernix_core.testing.drafters import ScriptedBackend
from infernix_core.testing.scripted_model import ScriptedTarget, start_of
from infernix_http.options import ServerOptions
from infernix_qwen3_5.frontend import Qwen3_5Model
from infernix_sampling.hooks import infernix_samplers
from infernix_xgrammar.hooks import infernix_mask_providers
from tests.plugins.serving import serving

WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather in a city.",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "maxLength": 20},
                "days": {"type": "integer", "minimum": 1, "maximum": 14},
                "units": {"enum": ["metric", "imperial"]},
            },
            "required": ["city", "days"],
            "additionalProperties": False,
        },
        "strict": True,
    },
}
NOOP: dict[str, Any] = {"type": "function", "function": {"name": "noop"}}
TOOLS: list[Any] = [WEATHER, NOOP]
MESSAGES: list[Any] = [{"role": "user", "content": "How is the weather in Ulm?"}]


def call(name: str, **arguments: str) -> str:
    """A call as the model writes it."""
    members = "".join(
        f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in arguments.items()
    )
    return f"<tool_call>\n<function={name}>\n{members}</function>\n</tool_call>"


ULM = call("get_weather", city='Ulm "a/b" \\ \n ö', days="3")
ULM_ARGUMENTS = '{"city": "Ulm \\"a/b\\" \\\\ \\n ö", "days": 3}'


@frozen(eq=False)
class Scripted(Qwen3_5Model):
    """A frontend whose target follows a script from the end of the prompt on."""

    def prepare(self, prompt: PromptInput) -> PreparedPrompt:
        prepared = super().prepare(prompt)
        return evolve(prepared, token_ids=(*prepared.token_ids, start_of(self.vocabulary)))


#: What a model says: in a text, spellings of control tokens are these tokens; in bytes they are text.
Said = str | Sequence[str | bytes]


def scripted(model: Any, said: Said) -> Scripted:
    """A model that says this, whatever it is asked."""
    control = model.tokenizer.control
    spellings = re.compile(f"({'|'.join(map(re.escape, control))})")
    parts: list[str | int] = []
    for part in [said] if isinstance(said, str) else said:
        if isinstance(part, bytes):
            parts.append(part.decode())
        else:
            parts += [control.get(piece, piece) for piece in spellings.split(part)]
    script = model.tokenizer.encode_parts(parts)
    fields = {
        name: getattr(model, name)
        for name in ("name", "config", "tokenizer", "template", "checkpoint_sampling")
    }
    return Scripted(target=ScriptedTarget(model.vocabulary, script), **fields)


@define
class Chat:
    """A client of one scripted server, and what it asks each time."""

    client: openai.OpenAI
    engine: Engine

    def ask(self, **fields: Any) -> Any:
        """A whole answer's choice."""
        (choice,) = self.create(**fields).choices
        return choice

    def create(self, **fields: Any) -> Any:
        asked = {"model": "demo", "messages": MESSAGES, "tools": TOOLS, "temperature": 0}
        return self.client.chat.completions.create(**{**asked, **fields})

    def both(self, **fields: Any) -> tuple[Any, Any]:
        """The choice of a whole answer, and the same out of a stream."""
        whole = self.ask(**fields)
        streamed = Streamed(list(self.create(stream=True, **fields)))
        return whole, streamed


class Streamed:
    """What a client makes of a stream."""

    def __init__(self, chunks: list[Any]) -> None:
        self.deltas = [chunk.choices[0].delta for chunk in chunks]
        self.finish_reason = chunks[-1].choices[0].finish_reason
        self.content = "".join(delta.content or "" for delta in self.deltas)
        self.pieces = [piece for delta in self.deltas for piece in delta.tool_calls or ()]
        self.arguments: dict[int, str] = {}
        for piece in self.pieces:
            self.arguments[piece.index] = (
                self.arguments.get(piece.index, "") + piece.function.arguments
            )


@contextmanager
def calling(
    model: Any, said: Said, server: ServerOptions | None = None, *, drafts: int = 0, **options: Any
) -> Iterator[Chat]:
    """A server over a scripted model, and its client.

    Args:
        model: Whose frontend it has.
        said: See :data:`Said`.
        server: Options.
        drafts: So many tokens are drafted at a time, all of them rightly.
        **options: Of ``EngineOptions``.
    """
    saying = scripted(model, said)
    script = saying.target.script

    def draft(row: DraftRow) -> Sequence[int]:
        done = len(row.history) - row.prompt_length
        return script[done : done + row.limit]

    engine = Engine(
        saying,
        mask_provider=next(iter(infernix_mask_providers())).create,
        sampler=next(iter(infernix_samplers())).create(),
        backend=ScriptedBackend(draft) if drafts else None,
        options=EngineOptions(lanes=2, **({"draft_tokens": drafts} if drafts else {}), **options),
    )
    with (
        engine,
        serving(engine, model_id="demo", options=server) as running,
        openai.OpenAI(base_url=f"{running.url}/v1", api_key="x", max_retries=0) as client,
    ):
        yield Chat(client, engine)


def arguments(choice: Any) -> list[tuple[str, Any]]:
    """The calls of a whole answer."""
    return [
        (one.function.name, json.loads(one.function.arguments))
        for one in choice.message.tool_calls or ()
    ]
