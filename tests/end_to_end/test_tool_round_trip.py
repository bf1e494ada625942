"""Calls as the chat template writes them, through masks and reader, and back: every value, byte for byte."""

from __future__ import annotations

import json
import random
from typing import Any

import jsonschema
import pytest

from infernix_core.interfaces.frontend import (
    OutputRequest,
    PromptInput,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from infernix_json_masks.provider import JsonMaskProvider
from infernix_qwen3_5.prompts import template_variables
from tests.end_to_end.test_tool_walks import demo

#: What strings are made of: marks and their look-alikes, quotes, line ends, blanks, characters of every length.
PIECES = (
    "a", "Z9", " ", "  ", "\t", "\n", "\n\n", "\r\n", '"', "'", "\\", "\\n", "{", "}", ", ", ": ", "é", "ß", "日本", "🙂",
    "\x00", "\x1f", "\u2028", "<", ">", "=", "</", "<parameter=", "<parameter=city>\n", "</parameter>", "</parameter",
    "<function=", "<function=f>\n", "</function>", "</function>\n", "<tool_call>", "</tool_call>", "</think>", "<|im_end|>",
    "\n</parameter", "\n</param", "true", "null", "12", "[1]", '{"a": 1}',
)  # fmt: skip
END = "\n</parameter>"
NAMES = (
    "city",
    "days",
    "a b",
    "ä",
    "x>y",
    "<parameter=",
    "function",
    "q",
    "very_long_name_of_a_parameter",
    '"',
)


def text(rng: random.Random, most: int = 6) -> str:
    """A string that raw text can hold."""
    while True:
        found = "".join(rng.choices(PIECES, k=rng.randint(0, most)))
        if END not in found:
            return found


def value_of(rng: random.Random, depth: int = 2) -> Any:
    kinds = ["int", "float", "bool", "null", "text"] + (["list", "object"] if depth else [])
    match rng.choice(kinds):
        case "int":
            return rng.choice([0, -1, 7, 2**53, -(2**63), 2**63 - 1, rng.randint(-999, 999)])
        case "float":
            return rng.choice([0.5, -1.25, 1e-7, 1.5e300, -3.0, rng.uniform(-1e6, 1e6)])
        case "bool":
            return rng.random() < 0.5
        case "null":
            return None
        case "text":
            return text(rng)
        case "list":
            return [value_of(rng, depth - 1) for _ in range(rng.randint(0, 3))]
    return {text(rng, 2): value_of(rng, depth - 1) for _ in range(rng.randint(0, 3))}


def typed(rng: random.Random) -> tuple[dict[str, Any], Any]:
    """A schema of one type, and a value of it that no other reading could give."""
    match rng.choice(
        [
            "string",
            "bounded",
            "enum",
            "integer",
            "number",
            "boolean",
            "array",
            "object",
            "const",
            "texts",
        ]
    ):
        case "string":
            return {"type": "string"}, text(rng)
        case "bounded":
            found = text(rng)
            return {"type": "string", "minLength": len(found), "maxLength": len(found) + 3}, found
        case "texts":
            found = [text(rng) for _ in range(3)]
            return {"type": "string", "enum": found}, rng.choice(found)
        case "enum":
            found = [
                value for value in (value_of(rng) for _ in range(4)) if not isinstance(value, str)
            ]
            found.append(3)
            return {"enum": found}, rng.choice(found)
        case "integer":
            number = rng.randint(-(10**6), 10**6)
            return {
                "type": "integer",
                "minimum": number - 1,
                "maximum": number + rng.randint(0, 9),
            }, number
        case "number":
            return {"type": "number"}, rng.choice(
                [0.5, 1e-7, -12.75, 1.5e300, 3, rng.uniform(-9, 9)]
            )
        case "boolean":
            return {"type": "boolean"}, rng.random() < 0.5
        case "array":
            return {"type": "array"}, [value_of(rng) for _ in range(rng.randint(0, 3))]
        case "object":
            return {"type": "object"}, {
                text(rng, 2): value_of(rng) for _ in range(rng.randint(0, 3))
            }
    while isinstance(value := value_of(rng), str):
        pass
    return {"const": value}, value


def tool(rng: random.Random, name: str, *, strict: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """A tool, and arguments that it takes."""
    properties, arguments, required = {}, {}, []
    for each in rng.sample(NAMES, rng.randint(0, 5)):
        properties[each], value = typed(rng)
        if rng.random() < 0.7:
            arguments[each] = value
            if rng.random() < 0.5:
                required.append(each)
    schema = {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }
    if not strict:
        # Any order, and names that nobody declared; text that is no JSON is a string then.
        if rng.random() < 0.5:
            arguments["undeclared"] = "free: " + text(rng)
        items = list(arguments.items())
        rng.shuffle(items)
        arguments = dict(items)
    function = {"name": name, "parameters": schema, "strict": strict}
    return {"type": "function", "function": function}, arguments


def split(rng: random.Random, text: str) -> list[int]:
    """Tokens that spell a text: the tokenizer's, or pieces of any lengths, single bytes among them."""
    tokenizer = demo().tokenizer
    if rng.random() < 0.4:
        return tokenizer.encode(text)
    vocabulary = demo().vocabulary
    if rng.random() < 0.3:
        single = {raw: token for token, raw in enumerate(vocabulary.token_bytes) if len(raw) == 1}
        return [single[bytes([byte])] for byte in text.encode()]
    tokens, start = [], 0
    while start < len(text):
        size = rng.randint(1, 9)
        tokens += tokenizer.encode(text[start : start + size])
        start += size
    return tokens


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("seed", range(60))
def test_rendered_calls_come_back(seed: int, strict: bool) -> None:
    rng, model = random.Random(f"{seed} {strict}"), demo()
    made = [tool(rng, f"{name}{seed}", strict=strict) for name in ("get", "put", "get_all")]
    chosen = [rng.choice(made) for _ in range(rng.randint(1, 3))]
    content = rng.choice(["", "I look.", "One.\n\nTwo: <tool_call>"])
    user = {"role": "user", "content": "Go."}
    calls = [
        {"type": "function", "function": {"name": each["function"]["name"], "arguments": arguments}}
        for each, arguments in chosen
    ]
    answer = {"role": "assistant", "content": content, "tool_calls": calls}
    prompt = PromptInput(messages=[user], tools=[each for each, _ in made], enable_thinking=False)
    prepared, request = model.prepare(prompt), OutputRequest()
    # What the template writes of the answer, from behind the generation prompt on.
    assert model.template is not None
    variables = template_variables(prompt, model.template.reserved)
    variables |= {"messages": [user, answer], "add_generation_prompt": False}
    parts = model.template.render(variables)
    ids = model.tokenizer.encode_parts(parts)
    begun = len(prepared.token_ids)
    assert tuple(ids[:begun]) == prepared.token_ids
    text_parts, tokens = parts_behind(parts, model), []
    for part in text_parts:
        tokens += [part] if isinstance(part, int) else split(rng, part)
    language = model.language(prepared, request)
    assert language is not None
    compiled = JsonMaskProvider().bind(model.vocabulary).compile(language)
    matcher, decoder = compiled.start(), model.decoder(prepared, request, compiled.raw_members)
    state, pieces = decoder.start(), []
    for token in tokens:
        assert matcher.accept(token), (token, calls)
        state, more = decoder.step(state, token)
        pieces += more
    assert matcher.may_end
    pieces += decoder.finish(state)
    names = [piece.name for piece in pieces if isinstance(piece, ToolCallStart)]
    found = ["" for _ in names]
    for piece in pieces:
        if isinstance(piece, ToolCallDelta):
            found[piece.index] += piece.arguments
    assert sum(isinstance(piece, ToolCallEnd) for piece in pieces) == len(names) == len(chosen)
    assert "".join(piece.text for piece in pieces if hasattr(piece, "text")) == content
    for name, arguments_json, (declared, arguments) in zip(names, found, chosen, strict=True):
        assert name == declared["function"]["name"]
        assert same(json.loads(arguments_json), arguments), (arguments_json, arguments)
        if strict:
            validator = jsonschema.Draft202012Validator(declared["function"]["parameters"])
            validator.validate(json.loads(arguments_json))


def same(found: Any, given: Any) -> bool:
    """Equal, with the types that JSON tells apart; order counts."""
    return json.dumps(found) == json.dumps(given)


def parts_behind(parts: list[str | int], model: Any) -> list[str | int]:
    """The parts of the last turn behind its empty thinking block, without the token that ends it."""
    control = model.tokenizer.control
    start = max(index for index, part in enumerate(parts) if part == control["</think>"])
    rest = parts[start + 1 :]
    assert isinstance(rest[0], str)
    rest[0] = rest[0].removeprefix("\n\n")
    end = max(index for index, part in enumerate(rest) if part == control["<|im_end|>"])
    return [part for part in rest[:end] if part != ""]
