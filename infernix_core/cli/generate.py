"""``infernix generate``: one answer on stdout, everything about it on stderr."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from attrs import evolve

from infernix_core.cli import exit_codes, interrupts
from infernix_core.cli.constraint_options import (
    OPTIONS,
    add_constraint_arguments,
    constraint_from_arguments,
    explain_constraint,
)
from infernix_core.cli.engine_arguments import (
    add_engine_arguments,
    add_model_argument,
    engine_options,
    resolve_model,
)
from infernix_core.cli.text_input import checked_argument, read_text, require_one_stdin
from infernix_core.cli.tool_options import (
    add_tool_arguments,
    choice_from_arguments,
    declared_tools,
    read_json,
    tools_from_arguments,
)
from infernix_core.descriptors import CliCommand, MaskProviderPlugin
from infernix_core.errors import (
    InvalidOption,
    InvalidPrompt,
    Location,
    RequestError,
)
from infernix_core.plugins import PluginRegistry

if TYPE_CHECKING:
    from infernix_core.cli.terminal import StatusLine
    from infernix_core.engine.engine import Engine
    from infernix_core.engine.request import RequestOptions
    from infernix_core.interfaces.frontend import PromptInput
    from infernix_core.interfaces.tools import ToolDeclaration

SAMPLING = {
    "temperature": (float, "softmax temperature; 0 is greedy"),
    "top_p": (float, "keep the smallest set of tokens with this probability mass"),
    "top_k": (int, "keep this many tokens; 0 keeps all"),
    "min_p": (float, "drop tokens below this fraction of the most likely one"),
    "presence_penalty": (float, "subtracted from the logit of tokens already in the output"),
    "frequency_penalty": (float, "subtracted once per occurrence in the output"),
    "seed": (int, "seed of all draws; without it, a new one each time"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    add_model_argument(parser)
    prompt = parser.add_argument_group("prompt (exactly one)").add_mutually_exclusive_group()
    prompt.add_argument("--prompt", metavar="TEXT", help="one user message; - reads stdin")
    prompt.add_argument(
        "--messages",
        metavar="FILE",
        help="JSON array of messages, or an object with messages and tools; - reads stdin",
    )
    prompt.add_argument(
        "--raw-prompt",
        metavar="TEXT",
        help="text to continue, without a chat template; - reads stdin",
    )
    thinking = parser.add_mutually_exclusive_group()
    thinking.add_argument(
        "--thinking", dest="thinking", action="store_true", default=None, help="think first"
    )
    thinking.add_argument(
        "--no-thinking", dest="thinking", action="store_false", help="answer at once"
    )
    parser.add_argument(
        "--thinking-budget",
        type=int,
        metavar="N",
        help="most tokens of reasoning; then it is closed (default: no limit of its own)",
    )
    add_constraint_arguments(parser)
    add_tool_arguments(parser)
    sampling = parser.add_argument_group("sampling (default: the checkpoint's settings)")
    sampling.add_argument("--greedy", action="store_true", help="always the most likely token")
    for name, (kind, text) in SAMPLING.items():
        sampling.add_argument(f"--{name.replace('_', '-')}", type=kind, metavar="N", help=text)
    output = parser.add_argument_group("output")
    output.add_argument(
        "--max-tokens",
        type=int,
        metavar="N",
        help="most tokens to generate, reasoning included (default: what the context leaves)",
    )
    output.add_argument(
        "--stop",
        action="append",
        default=[],
        metavar="TEXT",
        help="end before this text (repeatable)",
    )
    output.add_argument(
        "--stop-token-id", action="append", type=int, default=[], metavar="ID", help="(repeatable)"
    )
    output.add_argument(
        "--raw-output",
        action="store_true",
        help="publish everything as it is: no reasoning split, control tokens spelled out",
    )
    output.add_argument(
        "--constraint-stats",
        action="store_true",
        help="report how much of the model's own probability the constraint left it",
    )
    output.add_argument("--print-token-ids", action="store_true", help="token ids on stderr")
    output.add_argument("--quiet", action="store_true", help="no reasoning and no report on stderr")
    add_engine_arguments(parser)


def run(namespace: argparse.Namespace, registry: PluginRegistry) -> int:
    """Generates one answer."""
    # What can be found wrong without the model is found before it is loaded.
    require_one_stdin(
        prompt=namespace.prompt,
        messages=namespace.messages,
        raw_prompt=namespace.raw_prompt,
        grammar_file=namespace.grammar_file,
        json_schema_file=namespace.json_schema_file,
        tools=namespace.tools,
    )
    constraint = constraint_from_arguments(namespace)
    prompt = _prompt(namespace)
    declared = declared_tools(prompt.tools, "--tools" if namespace.tools else "--messages")
    tool_choice = choice_from_arguments(namespace, declared)
    model = resolve_model(namespace.model, registry)
    if constraint is not None:
        provider = registry.create(MaskProviderPlugin, namespace.mask_provider)
        explain_constraint(constraint, provider)

    from infernix_core.cli.terminal import StatusLine
    from infernix_core.engine.engine import Engine
    from infernix_core.engine.request import RequestOptions
    from infernix_core.interfaces.sampling import SamplingOptions

    sampling = SamplingOptions(
        greedy=namespace.greedy, **{name: getattr(namespace, name) for name in SAMPLING}
    )
    options = RequestOptions(
        constraint=constraint,
        sampling=sampling,
        max_tokens=namespace.max_tokens,
        stop=tuple(checked_argument(text, "--stop") for text in namespace.stop),
        stop_token_ids=tuple(namespace.stop_token_id),
        raw_output=namespace.raw_output,
        tool_choice=tool_choice,
        thinking_budget=namespace.thinking_budget,
        constraint_stats=namespace.constraint_stats,
    )
    _check(options, declared, chat=namespace.raw_prompt is None)
    status = StatusLine()
    status.show("loading the model …")
    try:
        sizes = engine_options(namespace, lanes=1)
        with Engine.load(model.directory, options=sizes, registry=registry) as engine:
            return _answer(engine, prompt, options, namespace, status)
    finally:
        status.clear()


def _check(options: RequestOptions, declared: Sequence[ToolDeclaration], *, chat: bool) -> None:
    from infernix_core.engine.request_checks import check_request, check_tools

    try:
        check_request(options, chat=chat)
        check_tools(options, declared)
    except RequestError as error:
        location, constraint = error.location, options.constraint
        if location is not None and location.field == "constraint" and constraint is not None:
            error.location = evolve(location, field=OPTIONS[constraint.kind])
        raise


def _answer(
    engine: Engine,
    prompt: PromptInput,
    options: RequestOptions,
    namespace: argparse.Namespace,
    status: StatusLine,
) -> int:
    from infernix_core.cli.terminal import Answer, report_lines
    from infernix_core.engine.request import FinishReason

    status.show("reading the prompt …")
    handle = engine.submit(engine.prepare(prompt), options)
    interrupts.raise_exception()
    try:
        result = Answer(status, quiet=namespace.quiet).print(handle)
    except BaseException:
        handle.cancel()
        raise
    finally:
        interrupts.exit_at_once()
    if namespace.print_token_ids:
        print(" ".join(map(str, result.token_ids)), file=sys.stderr)
    if not namespace.quiet:
        for line in report_lines(result):
            print(line, file=sys.stderr)
    result.raise_for_error()
    incomplete = result.finish_reason is FinishReason.LENGTH
    return exit_codes.INCOMPLETE if incomplete else exit_codes.DONE


def _prompt(namespace: argparse.Namespace) -> PromptInput:
    from infernix_core.interfaces.frontend import PromptInput

    if namespace.raw_prompt is not None:
        for option, given in (
            ("--thinking", namespace.thinking is not None),
            ("--tools", namespace.tools is not None),
        ):
            if given:
                raise InvalidOption(
                    f"a raw prompt has no {option.removeprefix('--')}",
                    location=Location(field=option),
                    hint="ask as a chat, with --prompt or --messages",
                )
        return PromptInput(text=_argument_or_stdin(namespace.raw_prompt, "--raw-prompt"))
    if namespace.prompt is not None:
        text = _argument_or_stdin(namespace.prompt, "--prompt")
        messages: Any = [{"role": "user", "content": text}]
        tools: Any = ()
    elif namespace.messages is not None:
        messages, tools = _messages(namespace)
    else:
        raise InvalidOption("give a prompt: one of --prompt, --messages and --raw-prompt")
    return PromptInput(
        messages=messages,
        tools=tools or tools_from_arguments(namespace),
        continue_final=_ends_with_the_assistant(messages),
        enable_thinking=namespace.thinking,
    )


def _messages(namespace: argparse.Namespace) -> tuple[Any, Any]:
    """Messages, and tools if they come along."""
    where = Location(field="--messages")
    document = read_json(read_text(namespace.messages, "--messages"), "--messages")
    tools: Any = ()
    if isinstance(document, dict):
        unknown = sorted(document.keys() - {"messages", "tools"})
        if unknown or "messages" not in document:
            raise InvalidPrompt(
                f"the object has {', '.join(unknown) or 'no messages'}",
                location=where,
                hint="its members are messages and tools",
            )
        document, tools = document["messages"], document.get("tools", ())
    if not isinstance(document, list) or not isinstance(tools, list | tuple):
        raise InvalidPrompt("messages and tools are JSON arrays", location=where)
    if tools and namespace.tools is not None:
        raise InvalidOption(
            "the messages bring tools of their own",
            location=Location(field="--tools"),
            hint="leave out one of them",
        )
    if _ends_with_the_assistant(document) and namespace.thinking is not False:
        raise InvalidPrompt(
            "the last message is the assistant's, which can be continued only without thinking",
            location=where,
            hint="give --no-thinking, or end with a message of the user's or a tool's",
        )
    return document, tools


def _ends_with_the_assistant(messages: Sequence[Any]) -> bool:
    last = messages[-1] if messages else None
    return isinstance(last, dict) and last.get("role") == "assistant"


def _argument_or_stdin(value: str, field: str) -> str:
    return read_text("-", field) if value == "-" else checked_argument(value, field)


COMMAND = CliCommand(
    name="generate",
    summary="Generate one answer, free or in a guaranteed shape.",
    add_arguments=add_arguments,
    run=run,
)
