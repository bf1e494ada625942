"""How a client of a protocol speaks: well, for the protocol's own suite to give, and badly."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from attrs import evolve, field, frozen

#: JSON values of every kind, and the ends of some kinds.
VALUES = (
    *("null", "true", "false", "0", "-1", "3", "1.5", "1e308", "1e999", "1" + "0" * 30),
    *('""', '"text"', '"\\ud800"', '"\\u0000"', "[]", "[null]", "[[]]", '["text"]', "[1]", "{}"),
    *('{"a": null}', "[{}]", '[{"role": 1, "content": []}]'),
    *("[" * depth + "]" * depth for depth in (300, 900)),
    *('{"a":' * depth + "1" + "}" * depth for depth in (300, 900)),
)


@frozen
class WireRequest:
    """One HTTP request."""

    path: str
    body: bytes = b""
    headers: Mapping[str, str] = field(factory=dict)
    method: str = "POST"

    @classmethod
    def json(cls, path: str, value: Any, headers: Mapping[str, str] | None = None) -> WireRequest:
        """A POST of a JSON value."""
        headers = {"Content-Type": "application/json", **(headers or {})}
        return cls(path, json.dumps(value).encode(), headers)


class WireClient(ABC):
    """How a client of the protocol asks, and how it reads the answer. Only ``request`` must be given."""

    @abstractmethod
    def request(
        self, prompt: str, *, max_tokens: int, stream: bool, choices: Sequence[str] = ()
    ) -> WireRequest | None:
        """Asks for the continuation of a text; a chat protocol sends it as the one message of a user.

        It says nothing about sampling.

        Args:
            prompt: The text.
            max_tokens: Most tokens to generate.
            stream: Whether the answer shall come in pieces.
            choices: Texts of which the answer is to be one; empty leaves it free.

        Returns:
            ``None`` when the protocol cannot express ``stream`` or ``choices``; the tests of it are skipped.
        """

    def text(self, body: bytes) -> str:
        """The generated text of a whole answer."""
        return body.decode()

    def streamed_text(self, body: bytes) -> str:
        """The generated text of a streamed answer.

        Raises:
            Exception: The stream says that the generation failed, or lacks its end.
        """
        return body.decode()

    def malformed(self) -> Iterable[WireRequest]:
        """Requests that are refused as the client's fault. The default is for a protocol of JSON objects.

        The content type is among them because a web page of another origin may send any other body
        without asking the server first.
        """
        good = self.plain("a prompt", max_tokens=1)
        for body in (b"", b"this is not JSON", b"{", b"[1, 2]", b'"text"', b"12", b"null", b"{}"):
            yield evolve(good, body=body)
        yield evolve(good, body=good.body[:-1] + b"\xff" + good.body[-1:])
        yield evolve(good, body=b"[" * 100_000)
        yield evolve(good, body=b'{"a":' * 100_000 + b"1" + b"}" * 100_000)
        yield evolve(good, headers={**good.headers, "Content-Type": "text/plain"})

    def plain(self, prompt: str, *, max_tokens: int) -> WireRequest:
        """The request for a whole, free answer, which every protocol has."""
        request = self.request(prompt, max_tokens=max_tokens, stream=False)
        assert request is not None, "a client must be able to ask for a whole, free answer"
        return request


@frozen
class Reply:
    """What came back.

    Attributes:
        broken: The connection ended before the answer did.
    """

    status: int
    body: bytes
    broken: bool = False


def rubbish(good: WireRequest) -> Iterator[WireRequest]:
    """A good request with bodies and headers of any kind in place of its own."""
    bodies = [
        b"",
        b"\xff\xfe\x00",
        b"[" * 100_000,
        b"[" * 500 + b"]" * 500,
        b"NaN",
        b'{"a": 1, "a": 2}',
    ]
    bodies += [b'{"a": ' + b"1" * 5000 + b"}", *(value.encode() for value in VALUES)]
    for body in bodies:
        yield evolve(good, body=body)
    for kind in (
        "text/plain",
        "no type",
        "application/json; charset=unheard-of",
        "multipart/form-data",
    ):
        yield evolve(good, headers={**good.headers, "Content-Type": kind})
    for coding in ("gzip", "deflate", "unheard-of"):
        yield evolve(good, headers={**good.headers, "Content-Encoding": coding})


def members_replaced(good: WireRequest) -> Iterator[WireRequest]:
    """A good request with each member of its JSON object in turn set to values of every kind.

    Raises:
        ValueError: Its body is no JSON object.
    """
    members = json.loads(good.body)
    if not isinstance(members, dict):
        raise ValueError("the body is no JSON object")
    for name in members:
        others = json.dumps({key: members[key] for key in members if key != name})
        rest = f", {others[1:]}" if len(members) > 1 else "}"
        for value in VALUES:
            body = f"{{{json.dumps(name)}: {value}{rest}"
            yield evolve(good, body=body.encode())
