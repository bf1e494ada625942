"""Every policy, whole: what a request may generate, compared with an expression written for it by hand.

Tokens of a tiny vocabulary are single letters to the expression. Its automaton and the matcher are walked together
through every state that any output can reach, so nothing is left to chance; the languages that tools take part in
are infinite, but their states are few.
"""

from __future__ import annotations

import itertools
import random
from collections import deque
from functools import cache

import numpy as np
import pytest

from infernix_constraints.strings.pattern import from_pattern
from infernix_core.interfaces.constraints import JsonSchema
from infernix_core.interfaces.frontend import OutputRequest, StartPhase
from infernix_core.interfaces.tools import ToolChoice, ToolConstraints, ToolMode, read_tools
from infernix_core.interfaces.vocabulary import TokenClass, Vocabulary
from infernix_json_masks.provider import JsonMaskProvider
from infernix_qwen3_5.language import output_language

#: A letter for each token, and what it spells: TEXT, or the name of a control token.
TEXTS = {
    "n": "\n",
    "s": "\n\n",
    "a": "<function=alpha>\n",
    "b": "<function=beta>\n",
    "E": "</function>\n",
    "P": "<parameter=k>\n",
    "Q": "\n</parameter>\n",
    "q": "</parameter>\n",
    "x": "x",
    "j": '{"k":1}',
    "v": "7",
}
CONTROL = {"C": "<tool_call>", "c": "</tool_call>", "t": "</think>"}
LETTERS = (*TEXTS, *CONTROL)
END = len(LETTERS)
VOCABULARY = Vocabulary(
    (*(text.encode() for text in TEXTS.values()), *[b""] * 4),
    (*[TokenClass.TEXT] * len(TEXTS), *[TokenClass.FRAMING] * 3, TokenClass.END),
    {name: LETTERS.index(letter) for letter, name in CONTROL.items()},
)

#: Any text token.
TEXT = "[nsabEPQqxjv]"
#: A raw value and its end: the end's own token, or ``q`` where the token before it ends in a line break.
INSIDE = "q?([nsabEP]|[xjv]q?)*"
VALUE = f"({INSIDE}Q|({INSIDE}([nsabEP]|[xjv]q)|q)q)"
ARGUMENTS = {
    # alpha takes a string, required when it is strict; beta an integer.
    ("alpha", True): f"P{VALUE}",
    ("alpha", False): f"(P{VALUE})?",
    ("beta", True): "(Pv{1,4}(Q|nq))?",
    ("beta", False): f"(P{VALUE})?",
}
INTEGER = {"type": "integer", "minimum": 7, "maximum": 7777}
SCHEMAS = {
    "alpha": {
        "type": "object",
        "properties": {"k": {"type": "string"}},
        "required": ["k"],
        "additionalProperties": False,
    },
    "beta": {"type": "object", "properties": {"k": INTEGER}, "additionalProperties": False},
}
#: Constant, so that nothing but it and blanks around it is content.
JSON = {"const": {"k": 1}}
BLANKS = "(n|s)*"


def tools(strict):
    return read_tools(
        {
            "type": "function",
            "function": {"name": name, "parameters": SCHEMAS[name], "strict": strict},
        }
        for name in SCHEMAS
    )


POLICIES = {
    "auto": ToolChoice(),
    "automatic": ToolChoice(constraints=ToolConstraints.AUTOMATIC),
    "none": ToolChoice(ToolMode.NONE),
    "required": ToolChoice(ToolMode.REQUIRED),
    "allowed": ToolChoice(allowed_names=("beta",)),
    "named": ToolChoice(ToolMode.REQUIRED, ("alpha",), parallel=False),
}
CELLS = list(
    itertools.product(POLICIES, (False, True), (False, True), (False, True), (False, True))
)


def choice_of(policy, parallel):
    base = POLICIES[policy]
    return ToolChoice(base.mode, base.allowed_names, base.parallel and parallel, base.constraints)


def expression(policy, strict, parallel, json, thinks):
    """The language by hand, over letters; ``None`` where nothing is constrained."""
    if policy == "automatic" and not strict and parallel and not json:
        return None
    names = {"allowed": ["beta"], "named": ["alpha"], "none": []}.get(policy, ["alpha", "beta"])
    content = f"{BLANKS}j{BLANKS}" if json else f"({TEXT}|c|t)*"
    ways = [f"{name[0]}{ARGUMENTS[name, strict]}Ec" for name in names]
    call = f"Cn({'|'.join(ways)})"
    calls = f"{call}(n{call})*" if parallel and policy != "named" else call
    if policy == "none":
        answer = content
    elif policy in ("required", "named"):
        answer = calls
    elif json:
        answer = f"({content}|{calls})"
    else:
        answer = f"{content}({calls})?"
    if thinks:
        thoughts = f"({TEXT}|c{'' if policy == 'none' else '|C'})*"
        # The separator's second line break may come with a first one of the content, where that is bytes; free
        # text is made of tokens, and calls begin with one.
        joined = f"|ns{content}" if json and policy not in ("required", "named") else ""
        answer = f"{thoughts}t((s|nn){answer}{joined})"
    return f"^({answer})$"


@cache
def bound():
    return JsonMaskProvider().bind(VOCABULARY)


def bits(matcher):
    row = np.zeros(VOCABULARY.words, dtype=np.int32)
    matcher.fill(row)
    return set(np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist())


@pytest.mark.parametrize(("policy", "strict", "parallel", "json", "thinks"), CELLS)
def test_every_state_of_every_policy(policy, strict, parallel, json, thinks):
    request = OutputRequest(JsonSchema.of(JSON) if json else None, choice_of(policy, parallel))
    phase = StartPhase.REASONING if thinks else StartPhase.CONTENT
    language = output_language(VOCABULARY, phase, tools(strict), request)
    wanted = expression(policy, strict, parallel, json, thinks)
    if wanted is None:
        assert language is None
        return
    automaton, matcher = from_pattern(wanted), bound().compile(language).start()
    start = (matcher.mark(), automaton.start)
    seen, queue = {start}, deque([(start, "")])
    while queue:
        (mark, state), path = queue.popleft()
        # The expression has no limit of the blanks around JSON, the language one of 32.
        if len(path) - len(path.lstrip("ns")) > 8 or len(path) - len(path.rstrip("ns")) > 8:
            continue
        matcher.rollback(mark)
        legal = bits(matcher)
        after = {
            token: automaton.state_after(letter, state) for token, letter in enumerate(LETTERS)
        }
        assert {token for token, target in after.items() if target} == legal - {END}, path
        assert bool(automaton.accepting[state]) == (END in legal) == matcher.may_end, path
        for token in sorted(legal - {END}):
            matcher.rollback(mark)
            assert matcher.accept(token), path
            reached = (matcher.mark(), after[token])
            if reached not in seen:
                seen.add(reached)
                queue.append((reached, path + LETTERS[token]))


def test_a_value_may_not_repeat_its_parameter_in_any_lookahead():
    """The open names of tools that are not strict: a second ``k`` is illegal however far ahead it is looked at."""
    language = output_language(VOCABULARY, StartPhase.CONTENT, tools(False), OutputRequest())
    matcher = bound().compile(language).start()
    rng = random.Random(1)
    for _ in range(20):
        matcher = bound().compile(language).start()
        for letter in ["C", "n", "a", "P", *rng.choices("nsxjv", k=rng.randint(0, 4)), "Q"]:
            assert LETTERS.index(letter) in bits(matcher)
            assert matcher.accept(LETTERS.index(letter))
        assert bits(matcher) == {LETTERS.index("E")}
