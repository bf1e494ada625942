"""Seeded generator of conversations with tools: calls, and answers to their results.

A conversation is a list of messages in OpenAI's form whose last one is the answer to train. Its
turns are rendered here without the declarations, which many examples share; see ``tools.Preamble``.
"""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from . import tool_templates as tt
from .data import (
    END,
    KEYS,
    MAKERS,
    THINK_OFF,
    THINK_ON,
    Example,
    Task,
    ask_keys,
    compact_json,
    copy_example,
    make_example,
    reasoning,
    small_talk_example,
    user_turn,
)
from .names import Names
from .tool_requests import Request, Sought, fetch_record, one_call, one_in, two_calls
from .tools import Call, Preamble, calls_text
from .words import WordPools

Message = dict[str, Any]


def _line(names: Names, forms: Sequence[str]) -> str:
    return names.rng.choice(forms).format(word=names.identifier(), number=names.number())


def _with_other_lines(names: Names, text: str) -> str:
    """The line ``text`` among others that hold no record."""
    rng = names.rng
    lines = [_line(names, tt.OTHER_LINES) for _ in range(rng.choice((1, 1, 2, 3)))]
    lines.insert(rng.randint(0, len(lines)), text)
    return "\n".join(lines)


def _result(names: Names, call: Call) -> str:
    """What a call without a wish for a record gives: a few lines."""
    rng = names.rng
    if one_in(rng, 12):
        return rng.choice(tt.FAILURES).format(**call.arguments)
    count = 1 if "line" in call.arguments else rng.choice((1, 1, 2, 3))
    makers = (
        names.text,
        lambda: _line(names, tt.CODE_LINES),
        lambda: MAKERS[rng.choice(tuple(MAKERS))](names, False).sentence,
    )
    lines = [rng.choice(makers)().strip() for _ in range(count)]
    if call.name == "search":
        path = str(call.arguments["path"])
        lines = [f"{path}:{names.number(3)}: {line}" for line in lines]
    return "\n".join(lines)


def _call_message(rng: Random, request: Request, think: bool) -> Message:
    """The assistant's message with its calls, as a client sends it back.

    Not every client gives the reasoning back; without it the template renders an empty block.
    """
    message: Message = {
        "role": "assistant",
        "content": request.said or None,
        "tool_calls": [
            {
                "type": "function",
                "function": {"name": call.name, "arguments": dict(call.arguments)},
            }
            for call in request.calls
        ],
    }
    if think and rng.random() < 0.6:
        message["reasoning_content"] = request.reasoning
    return message


def answer_message(content: str, thought: str, think: bool) -> Message:
    """The assistant's last message."""
    message: Message = {"role": "assistant", "content": content}
    if think:
        message["reasoning_content"] = thought
    return message


def call_conversation(rng: Random, request: Request, think: bool) -> list[Message]:
    """The request, and the calls as its answer."""
    message = _call_message(rng, request, False)
    if think:
        message["reasoning_content"] = request.reasoning
    return [{"role": "user", "content": request.text}, message]


def record_conversation(
    names: Names, request: Request, sought: Sought, think: bool, alone: bool = False
) -> list[Message]:
    """The request, its calls, their result, and the record as JSON.

    Unless the result is to hold the record ``alone``, other lines stand around it, or a failed
    call has given no record; then the answer says what went wrong.
    """
    rng = names.rng
    result = sought.record.sentence
    answer = compact_json(sought.record, sought.keys)
    thought = reasoning(sought.record, sought.keys)
    (call,) = request.calls
    if not alone:
        if call.name == "search" and one_in(rng, 2):
            result = f"{call.arguments['path']}:{names.number(3)}: {result}"
        if one_in(rng, 4):
            result = _with_other_lines(names, result)
        if one_in(rng, 15):
            result = answer = rng.choice(tt.FAILURES).format(**call.arguments)
            thought = "This is no record."
    return [
        {"role": "user", "content": request.text},
        _call_message(rng, request, think),
        {"role": "tool", "content": result},
        answer_message(answer, thought, think),
    ]


def shown_conversation(names: Names, request: Request, think: bool) -> list[Message]:
    """The request, its calls, their results, and these as the answer: nothing else was asked."""
    results = [_result(names, call) for call in request.calls]
    return [
        {"role": "user", "content": request.text},
        _call_message(names.rng, request, think),
        *({"role": "tool", "content": result} for result in results),
        answer_message("\n".join(results), "show the result.", think),
    ]


def render(messages: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """The turns as the chat template renders them, cut before the last message's answer."""
    last_query = max(index for index, item in enumerate(messages) if item["role"] == "user")
    text = ""
    for index, message in enumerate(messages):
        role, content = message["role"], message["content"]
        if role == "user":
            text += user_turn(content)
        elif role == "tool":
            first = messages[index - 1]["role"] != "tool"
            last = index + 1 == len(messages) or messages[index + 1]["role"] != "tool"
            text += "<|im_start|>user" if first else ""
            text += f"\n<tool_response>\n{content}\n</tool_response>"
            text += f"{END}\n" if last else ""
        else:
            calls = [Call(**call["function"]) for call in message.get("tool_calls", ())]
            content = calls_text(calls, content or "") if calls else content
            thought = message.get("reasoning_content")
            opening = "<|im_start|>assistant\n"
            if index > last_query and thought is not None:
                opening, content = THINK_ON, f"{thought}\n</think>\n\n{content}"
            elif index > last_query:
                opening = THINK_OFF
            if index + 1 == len(messages):
                return text + opening, content + END
            text += f"{opening}{content}{END}\n"
    raise ValueError("the last message is no answer")


def _earlier(names: Names, tools: frozenset[str]) -> list[Message]:
    """A finished exchange before the one that is trained."""
    rng = names.rng
    draw = rng.random()
    if draw < 0.4:
        return shown_conversation(names, one_call(names, tools), False)
    if draw < 0.7:
        return record_conversation(names, *fetch_record(names, tools), False)
    kind = rng.choice(tuple(MAKERS))
    record = MAKERS[kind](names, False)
    keys = KEYS[kind]
    return [
        {
            "role": "user",
            "content": f"Extract {ask_keys(keys)} as JSON from: {record.sentence}",
        },
        answer_message(compact_json(record, keys), "", False),
    ]


def tool_conversation(names: Names, tools: frozenset[str]) -> list[Message]:
    """One conversation of the curriculum in which a tool is, or was, called."""
    rng = names.rng
    think = rng.random() < 0.4
    earlier = _earlier(names, tools) if one_in(rng, 8) else []
    draw = rng.random()
    if draw < 0.40:
        return earlier + call_conversation(rng, one_call(names, tools), think)
    if draw < 0.65:
        return earlier + call_conversation(rng, two_calls(names, tools), think)
    if draw < 0.91:
        request, sought = fetch_record(names, tools, plain=one_in(rng, 4))
        if draw < 0.73:
            return earlier + call_conversation(rng, request, think)
        return earlier + record_conversation(names, request, sought, think)
    request = one_call(names, tools) if one_in(rng, 1.3) else two_calls(names, tools)
    return earlier + shown_conversation(names, request, think)


def tool_example(rng: Random, pools: WordPools, preamble: Preamble) -> Example:
    """One example of the curriculum with tools declared; its prompt lacks the preamble."""
    names = Names(rng, pools)
    draw = rng.random()
    if draw < 0.84:
        prompt, answer = render(tool_conversation(names, preamble.names))
        return Example(prompt, answer)
    if draw < 0.88:
        return small_talk_example(names)
    if draw < 0.90:
        return copy_example(names)
    task = Task(
        kind=rng.choice(("bug", "bug", "contact", "log")),
        think=rng.random() < 0.35,
        vary_keys=rng.random() < 0.5,
        vary_ask=rng.random() < 0.5,
    )
    return make_example(names, task)


def undeclared_example(rng: Random, pools: WordPools) -> Example:
    """A request for a call where no tool is declared: answered like anything else unknown."""
    names = Names(rng, pools)
    text = one_call(names, Preamble().names).text
    return small_talk_example(names, text)


def _evaluation_messages(name: str, names: Names) -> list[Message]:
    """One conversation of the evaluation set ``name``."""
    rng, tools = names.rng, Preamble().names
    think = name.endswith("thinking")
    if name.startswith("tool result shown"):
        return shown_conversation(names, one_call(names, tools), think)
    if name.startswith("tool result"):
        request, sought = fetch_record(names, tools, plain=True)
        return record_conversation(names, request, sought, think, alone=True)
    if name.startswith("two calls"):
        return call_conversation(rng, two_calls(names, tools), think)
    if name.startswith("read and extract"):
        return call_conversation(rng, fetch_record(names, tools)[0], think)
    return call_conversation(rng, one_call(names, tools, "never trained" in name), think)


#: Evaluation sets with both tools declared.
TOOL_EVALUATION_TASKS = (
    "tool",
    "tool, thinking",
    "tool, request worded in a way never trained",
    "two calls",
    "two calls, thinking",
    "read and extract, the call",
    "tool result",
    "tool result, thinking",
    "tool result shown",
    "extraction with tools declared",
    "extraction with tools declared, thinking",
)


def tool_evaluation_examples(
    name: str, count: int, pools: WordPools, seed: int = 1
) -> list[Example]:
    """``count`` examples of a set in ``TOOL_EVALUATION_TASKS``, with held-out words only."""
    names = Names(Random(f"{seed} {name}"), pools, held_out=True)
    preamble = Preamble().text
    examples = []
    for _ in range(count):
        if name.startswith("extraction"):
            kind = names.rng.choice(tuple(MAKERS))
            example = make_example(names, Task(kind, think=name.endswith("thinking")))
        else:
            example = Example(*render(_evaluation_messages(name, names)))
        examples.append(Example(preamble + example.prompt, example.answer))
    return examples
