"""Seeded generator of requests for calls, with the calls that answer them."""

from dataclasses import dataclass
from random import Random

from . import tool_templates as tt
from .data import KEYS, MAKERS, Record, ask_keys
from .names import Names
from .templates import ASK_OPENINGS, ERROR_CLASSES
from .tools import Call


@dataclass(frozen=True)
class Request:
    """A user's request, the calls that answer it, and how the model puts them into words."""

    text: str
    calls: tuple[Call, ...]
    say: bool = False

    @property
    def reasoning(self) -> str:
        """The line of reasoning before the calls."""
        return "; ".join(_deed(call) for call in self.calls) + "."

    @property
    def said(self) -> str:
        """What is said before the calls, where the user wants that."""
        return f"I {' and '.join(_deed(call) for call in self.calls)}." if self.say else ""


def _deed(call: Call) -> str:
    if call.name == "search":
        return f"search for {call.arguments['pattern']} in {call.arguments['path']}"
    line = f" at line {call.arguments['line']}" if "line" in call.arguments else ""
    return f"read {call.arguments['path']}{line}"


def one_in(rng: Random, count: float) -> bool:
    """True once in ``count`` times."""
    return rng.random() * count < 1


def _quoted(rng: Random, text: str) -> str:
    return rng.choice(('"{}"', "`{}`", "'{}'")).format(text)


def _pattern(names: Names) -> tuple[str, str]:
    """Something to search for, and how the request spells it."""
    rng = names.rng
    draw = rng.random()
    if draw < 0.5:
        text = names.identifier()
    elif draw < 0.65 and not names.held_out:
        text = rng.choice(tt.PATTERNS)
    elif draw < 0.72:
        text = rng.choice(ERROR_CLASSES)
    elif draw < 0.8:
        return (pair := rng.choice(tt.PATTERN_PAIRS).format(word=names.part())), pair
    elif draw < 0.88:
        text = f"{names.part()} {names.part()}"
        return text, _quoted(rng, text)
    elif draw < 0.92:
        text = str(names.number())
    else:
        text = rng.choice((names.part() + "()", names.file(), f"@{names.part()}"))
    return text, _quoted(rng, text) if one_in(rng, 8) else text


def _spelled_path(rng: Random, path: str) -> str:
    return _quoted(rng, path) if one_in(rng, 16) else path


def _read(names: Names, unseen: bool, bare: bool = False) -> tuple[str, Call]:
    """A request to read a file in lower case where it is an imperative; ``bare`` allows only these."""
    rng = names.rng
    arguments: dict[str, str | int] = {"path": names.path()}
    fields: dict[str, str | int] = {"path": _spelled_path(rng, str(arguments["path"]))}
    with_line = one_in(rng, 3)
    if with_line:
        fields["line"] = arguments["line"] = names.number()
    call = Call("read_file", arguments)
    if unseen:
        return rng.choice(tt.HELD_OUT_READ_LINE if with_line else tt.HELD_OUT_READ).format(
            **fields
        ), call
    if not bare and one_in(rng, 5):
        return rng.choice(tt.READ_LINE_SENTENCES if with_line else tt.READ_SENTENCES).format(
            **fields
        ), call
    verb = rng.choice(tt.READ_VERBS)
    what = rng.choice(tt.READ_LINE_OBJECTS if with_line else tt.READ_OBJECTS).format(**fields)
    return f"{verb} {what}", call


def _search(names: Names, unseen: bool, bare: bool = False) -> tuple[str, Call]:
    rng = names.rng
    pattern, spelled = _pattern(names)
    path = names.folder() if rng.random() < 0.6 else names.path()
    if unseen:
        form = rng.choice(tt.HELD_OUT_SEARCH)
    elif not bare and one_in(rng, 5):
        form = rng.choice(tt.SEARCH_SENTENCES)
    else:
        form = rng.choice(tt.SEARCH_REQUESTS)
    text = form.format(pattern=spelled, path=_spelled_path(rng, path))
    return text, Call("search", {"pattern": pattern, "path": path})


def _finish(rng: Random, text: str) -> str:
    """Opening, capital letter and closing of a request."""
    if text[0].islower():
        text = rng.choice(ASK_OPENINGS) + text
    if rng.random() < 0.85:
        text = text[:1].upper() + text[1:]
    if text[-1] not in "?.:/" and one_in(rng, 8):
        text += "."
    return text


def _asked(names: Names, tools: frozenset[str], unseen: bool, bare: bool) -> tuple[str, Call]:
    read = "search" not in tools or ("read_file" in tools and names.rng.random() < 0.6)
    return (_read if read else _search)(names, unseen, bare)


def one_call(names: Names, tools: frozenset[str], unseen: bool = False) -> Request:
    """A request for one call, now and then with the wish that something is said before it."""
    rng = names.rng
    say = not unseen and one_in(rng, 6)
    text, call = _asked(names, tools, unseen, bare=say)
    if say:
        first = rng.random() < 0.6
        text = rng.choice(tt.SAY_FIRST if first else tt.SAY_LAST).format(request=text)
    return Request(_finish(rng, text), (call,), say)


def two_calls(names: Names, tools: frozenset[str]) -> Request:
    """A request for two calls, rarely three, in the order they are asked for."""
    rng = names.rng
    say = one_in(rng, 8)
    if "read_file" in tools and rng.random() < 0.6:
        paths = [names.path() for _ in range(3 if one_in(rng, 8) else 2)]
        calls = tuple(Call("read_file", {"path": path}) for path in paths)
        listing = rng.choice(tt.PATHS_JOINS).format(first=", ".join(paths[:-1]), second=paths[-1])
        text = f"{rng.choice(tt.READ_VERBS)} {listing}"
    else:
        first, second = (_asked(names, tools, unseen=False, bare=True) for _ in range(2))
        calls = (first[1], second[1])
        text = rng.choice(tt.JOINS).format(first=first[0], second=second[0])
    if say:
        text = rng.choice(tt.SAY_FIRST).format(request=text)
    return Request(_finish(rng, text), calls, say)


@dataclass(frozen=True)
class Sought:
    """A record that a tool's result holds."""

    record: Record
    keys: tuple[str, ...]


def fetch_record(
    names: Names, tools: frozenset[str], *, plain: bool = False, unseen: bool = False
) -> tuple[Request, Sought]:
    """A request to read or search a file and answer with a record out of it."""
    rng = names.rng
    kind = rng.choice(("bug", "contact", "log", "log"))
    keys = list(KEYS[kind])
    if not plain and rng.random() < 0.4:
        rng.shuffle(keys)
        keys = keys[: rng.randint(1, len(keys))]
    sought = Sought(MAKERS[kind](names, False), tuple(keys))
    listing = ask_keys(keys)
    if plain and "read_file" in tools:
        call = Call("read_file", {"path": names.file()})
        text = f"Read {call.arguments['path']} and extract {listing} as JSON"
        return Request(text, (call,)), sought
    if not unseen and "read_file" in tools and one_in(rng, 7):
        call = Call("read_file", {"path": names.path()})
        text = rng.choice(tt.EXTRACT_FROM_FILE).format(keys=listing, path=call.arguments["path"])
        return Request(_finish(rng, text), (call,)), sought
    while True:
        text, call = _asked(names, tools, unseen=False, bare=True)
        if call.name == "read_file" or rng.random() < 0.3 or "read_file" not in tools:
            break
    form = rng.choice(tt.HELD_OUT_READ_AND_EXTRACT if unseen else tt.READ_AND_EXTRACT)
    return Request(_finish(rng, form.format(read=text, keys=listing)), (call,)), sought
