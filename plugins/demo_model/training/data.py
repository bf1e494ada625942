"""Seeded generator of chat examples for training and evaluation.

An example is a prompt and an answer in the rendered chat format; only the answer is trained.
The same seed, tokenizer vocabulary and Python version give the same examples.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from . import templates as t
from .names import Names
from .words import WordPools

THINK_ON = "<|im_start|>assistant\n<think>\n"
THINK_OFF = "<|im_start|>assistant\n<think>\n\n</think>\n\n"
END = "<|im_end|>"

KEYS = {"bug": t.BUG_KEYS, "contact": t.CONTACT_KEYS, "log": t.LOG_KEYS}


@dataclass(frozen=True)
class Record:
    """A sentence, the values it states, and the evidence for the severity (bugs only)."""

    sentence: str
    values: Mapping[str, str | int]
    evidence: str = ""


@dataclass(frozen=True)
class Example:
    """A rendered prompt, its answer, and the answer's character spans that are trained.

    ``spans`` is ``None`` where the whole answer is trained. The answer includes its end token.
    """

    prompt: str
    answer: str
    spans: tuple[tuple[int, int], ...] | None = None


def user_turn(text: str) -> str:
    """A user turn as the chat template renders it."""
    return f"<|im_start|>user\n{text.strip()}{END}\n"


def _bug(names: Names, unseen_wording: bool) -> Record:
    rng = names.rng
    severity = rng.choice(("high", "medium", "low"))
    fields: dict[str, str | int] = {
        "file": names.file(),
        "line": names.number(),
        "err": names.error(),
        "user": names.identifier(),
        "number": names.number(4),
        "level": rng.choice((severity, severity, severity.upper(), severity.capitalize())),
    }
    kind = rng.random()
    pool: tuple[str, ...]
    if kind < 0.62:
        pool = t.HELD_OUT_IMPACT_BUGS if unseen_wording else t.IMPACT_BUGS
        if rng.random() < 0.15:
            # The impact outranks a kind of bug that by itself would mean another severity.
            fields["err"] = rng.choice(t.KINDS[rng.choice(("high", "medium", "low"))])
        evidence = rng.choice(t.IMPACTS[severity]).format(thing=names.thing())
        fields["impact"] = evidence
    elif kind < 0.94:
        pool = t.HELD_OUT_KIND_BUGS if unseen_wording else t.KIND_BUGS
        evidence = rng.choice(t.KINDS[severity])
        if rng.random() < 0.3:
            evidence = evidence.lower()
        fields["kind"] = evidence
    else:
        pool = t.HELD_OUT_KIND_BUGS if unseen_wording else t.LEVEL_BUGS
        evidence = rng.choice(t.KINDS[severity]) if unseen_wording else str(fields["level"])
        fields["kind"] = evidence
    # Most weight on the plain wordings, which people type first.
    index = int(len(pool) * rng.random() ** 1.3)
    sentence = pool[index].format(**fields)
    values = {"file": fields["file"], "line": fields["line"], "severity": severity}
    return Record(sentence, values, evidence)


def _contact(names: Names, unseen_wording: bool) -> Record:
    person = names.person()
    email = names.email(person)
    pool = t.HELD_OUT_CONTACTS if unseen_wording else t.CONTACTS
    sentence = names.rng.choice(pool).format(
        name=person, email=email, company=names.company(), number=names.number(4)
    )
    return Record(sentence, {"name": person, "email": email})


def _log(names: Names, unseen_wording: bool) -> Record:
    rng = names.rng
    level, service = rng.choice(t.LOG_LEVELS), names.identifier()
    code = rng.choice((names.number(3), rng.randint(100, 599), names.number(5)))
    pool = t.HELD_OUT_LOGS if unseen_wording else t.LOGS
    sentence = rng.choice(pool).format(
        level=level, service=service, code=code, number=names.number(), user=names.identifier()
    )
    return Record(sentence, {"level": level, "service": service, "code": code})


MAKERS = {"bug": _bug, "contact": _contact, "log": _log}


def ask_keys(keys: Sequence[str]) -> str:
    """The keys as English prose: "a", "a and b", "a, b, and c"."""
    if len(keys) <= 2:
        return " and ".join(keys)
    return f"{', '.join(keys[:-1])}, and {keys[-1]}"


def reasoning(record: Record, keys: Sequence[str]) -> str:
    """The short reasoning that leads to the values of ``keys``."""
    steps = [
        f'"{record.evidence}" is {record.values[key]}'
        if key == "severity"
        else f"{key} is {record.values[key]}"
        for key in keys
    ]
    return "; ".join(steps) + "."


def compact_json(record: Record, keys: Sequence[str]) -> str:
    """The answer's JSON without blanks, keys in the asked order."""
    values = {key: record.values[key] for key in keys}
    return json.dumps(values, ensure_ascii=False, separators=(",", ":"))


def _loose_json(
    rng: Random, record: Record, keys: Sequence[str]
) -> tuple[str, tuple[tuple[int, int], ...]]:
    """JSON in another layout or key order, with the spans of its values.

    This is what an answer looks like when a grammar forces its layout. Only the values (and the
    character that ends each) are trained, since the model does not choose the rest.
    """
    order = list(keys)
    if rng.random() < 0.5:
        rng.shuffle(order)
    opening, comma, colon, closing = rng.choice(
        (("{", ", ", ": ", "}"), ("{", ",", ":", "}"), ("{\n  ", ",\n  ", ": ", "\n}"))
    )
    text, spans = opening, []
    for position, key in enumerate(order):
        if position:
            text += comma
        text += f'"{key}"{colon}'
        value = json.dumps(record.values[key], ensure_ascii=False)
        # A string's quote is forced as well; its first trained character is the one after it.
        start = len(text) + value.startswith('"')
        text += value
        spans.append((start, len(text) + (not value.endswith('"'))))
    text += closing
    spans.append((len(text), len(text) + len(END)))
    return text, tuple(spans)


@dataclass(frozen=True)
class Task:
    """What an example asks for; the defaults are the plain form a user would type."""

    kind: str = "bug"
    think: bool = False
    vary_keys: bool = False
    vary_ask: bool = False
    layout: str = "compact"
    unseen_wording: bool = False
    turns: int = 1
    system: bool = False


def _ask(names: Names, task: Task) -> tuple[Record, list[str], str]:
    rng = names.rng
    record = MAKERS[task.kind](names, task.unseen_wording)
    keys = list(KEYS[task.kind])
    if task.vary_keys:
        rng.shuffle(keys)
        keys = keys[: rng.randint(1, len(keys))]
    if not task.vary_ask:
        form = t.ASK_JSON
    elif task.unseen_wording:
        form = rng.choice(t.HELD_OUT_ASK_JSON)
    else:
        return record, keys, _varied_request(rng, keys, record.sentence)
    return record, keys, form.format(keys=ask_keys(keys), text=record.sentence)


def _varied_request(rng: Random, keys: Sequence[str], text: str) -> str:
    """A request put together from parts, so that none is learned as a whole."""
    listing = ask_keys(keys) if rng.random() < 0.7 else rng.choice((", ", " and ")).join(keys)
    if rng.random() < 0.3:
        listing = "the " + listing
    if rng.random() < 0.75:
        request = f"{rng.choice(t.ASK_VERBS)} {listing} {rng.choice(t.ASK_FORMATS)}"
    else:
        request = f"{rng.choice(t.ASK_VERBS)} {rng.choice(t.ASK_OBJECTS).format(keys=listing)}"
    request = rng.choice(t.ASK_OPENINGS) + request
    if rng.random() < 0.8:
        request = request[:1].upper() + request[1:]
    if rng.random() < 0.15:
        return t.ASK_LAST.format(text=text, request=request)
    source = rng.choice(t.ASK_SOURCES)
    return f"{request}{'' if source.startswith(':') else ' '}{source}{text}"


def make_example(names: Names, task: Task) -> Example:
    """One extraction example; earlier turns, if any, are part of the prompt."""
    rng = names.rng
    prompt = ""
    if task.system:
        prompt = f"<|im_start|>system\n{rng.choice(t.SYSTEM_PROMPTS)}{END}\n"
    for _ in range(task.turns - 1):
        earlier = Task(rng.choice(tuple(MAKERS)), vary_keys=True)
        record, keys, text = _ask(names, earlier)
        reply = compact_json(record, keys)
        prompt += f"{user_turn(text)}<|im_start|>assistant\n{reply}{END}\n"
    record, keys, text = _ask(names, task)
    spans = None
    if task.layout == "value":
        key = keys[0]
        keys = [key]
        text = rng.choice(t.ASK_VALUE).format(key=key, text=record.sentence)
        answer = str(record.values[key])
    elif task.layout == "loose":
        answer, spans = _loose_json(rng, record, keys)
    else:
        answer = compact_json(record, keys)
    prompt += user_turn(text)
    if task.think:
        head = f"{reasoning(record, keys)}\n</think>\n\n"
        if spans is not None:
            shifted = [(start + len(head), end + len(head)) for start, end in spans]
            spans = ((0, len(head)), *shifted)
        return Example(prompt + THINK_ON, head + answer + END, spans)
    return Example(prompt + THINK_OFF, answer + END, spans)


def copy_example(names: Names) -> Example:
    """A text to repeat: copying is what every extraction rests on."""
    text = names.text()
    return Example(f"{user_turn('Repeat: ' + text)}{THINK_OFF}", text + END)


def small_talk_example(names: Names, text: str = "") -> Example:
    """Anything else is answered with one sentence that says what the model is for."""
    rng = names.rng
    text = text or rng.choice(t.SMALL_TALK).format(thing=rng.choice((names.thing(), names.text())))
    if rng.random() < 0.3:
        reply = f"This is no record.\n</think>\n\n{t.SMALL_TALK_ANSWER}{END}"
        return Example(user_turn(text) + THINK_ON, reply)
    return Example(user_turn(text) + THINK_OFF, t.SMALL_TALK_ANSWER + END)


def training_example(rng: Random, pools: WordPools, progress: float) -> Example:
    """One example of the curriculum; ``progress`` runs from 0 to 1 over the training."""
    names = Names(rng, pools)
    early = progress < 0.3
    draw = rng.random()
    if draw < (0.45 if early else 0.08):
        return copy_example(names)
    if not early and draw < 0.12:
        return small_talk_example(names)
    layout = rng.random()
    task = Task(
        kind=rng.choice(("bug", "bug", "bug", "contact", "log")),
        think=rng.random() < 0.3,
        vary_keys=rng.random() < 0.5,
        vary_ask=rng.random() < 0.5,
        layout="value" if layout < 0.04 else "loose" if layout < 0.12 else "compact",
        turns=1 if early or rng.random() > 0.15 else rng.choice((2, 2, 3)),
        system=rng.random() < 0.1,
    )
    return make_example(names, task)


#: Held-out evaluation sets by name; all use held-out words.
EVALUATION_TASKS: Mapping[str, Task | None] = {
    "bug": Task(),
    "bug, thinking": Task(think=True),
    "bug, key subset and order": Task(vary_keys=True),
    "bug, unseen sentence": Task(unseen_wording=True),
    "bug, unseen sentence and request": Task(unseen_wording=True, vary_ask=True),
    "bug, forced layout": Task(layout="loose"),
    "bug, second turn": Task(turns=2),
    "contact": Task(kind="contact"),
    "contact, thinking": Task(kind="contact", think=True),
    "log": Task(kind="log"),
    "log, thinking": Task(kind="log", think=True),
    "copy": None,
}


def evaluation_examples(name: str, count: int, pools: WordPools, seed: int = 1) -> list[Example]:
    """``count`` examples of an evaluation set, with held-out words only."""
    task = EVALUATION_TASKS[name]
    names = Names(Random(f"{seed} {name}"), pools, held_out=True)
    return [
        copy_example(names) if task is None else make_example(names, task) for _ in range(count)
    ]
