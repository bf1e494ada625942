"""``infernix serve`` as a process: what it says, what it serves, how it ends."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from attrs import define

from infernix_core.cli.main import main
from infernix_core.errors import InvalidOption
from infernix_http.server import listen

MESSAGES: Any = [{"role": "user", "content": "Repeat: yes"}]


@define
class Process:
    process: subprocess.Popen[str]
    url: str
    log: list[str]

    def end(self) -> int:
        return self.process.wait(60)


@contextlib.contextmanager
def serve(
    *arguments: str, environment: dict[str, str] | None = None, program: str | None = None
) -> Iterator[Process]:
    """The command, or a program that calls it, on a free port, ready to serve."""
    start = ["-m", "infernix_core.cli.main"] if program is None else ["-c", program]
    command = [sys.executable, *start, "serve", "--port", "0", "--threads", "1"]
    process = subprocess.Popen(
        [*command, *arguments],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **(environment or {})},
    )
    log: list[str] = []
    ready = threading.Event()

    def read() -> None:
        for line in process.stderr:
            log.append(line)
            if "serving" in line:
                ready.set()
        ready.set()

    reader = threading.Thread(target=read)
    reader.start()
    try:
        assert ready.wait(120)
        found = re.search(r"serving (\S+) at (http://\S+)", "".join(log))
        assert found, "".join(log)
        yield Process(process, found[2], log)
    finally:
        process.kill()
        process.wait()
        reader.join(30)
        process.stderr.close()
        process.stdout.close()


def ask(client: openai.OpenAI, model: str = "demo", **fields: Any) -> str:
    reply = client.chat.completions.create(
        model=model,
        messages=MESSAGES,
        extra_body={"structured_outputs": {"choice": ["yes"]}},
        **fields,
    )
    return reply.choices[0].message.content


def test_it_serves_the_bundled_model_and_ends_on_a_signal() -> None:
    with serve() as server:
        with openai.OpenAI(base_url=server.url, api_key="x") as client:
            assert ask(client) == "yes"
            stream = client.chat.completions.create(
                model="demo",
                messages=MESSAGES,
                stream=True,
                extra_body={"structured_outputs": {"regex": "(?:yes ){60}"}},
            )
            chunks = iter(stream)
            next(chunks)
            server.process.send_signal(signal.SIGTERM)
            # What runs may finish.
            text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
            assert text == "yes " * 60
        assert server.end() == 0
        assert server.process.stdout.read() == ""
    log = "".join(server.log)
    assert f"serving demo at {server.url} (openai)\n" in log
    assert server.url.endswith("/v1")
    assert "constraint=choice grammar=built" in log
    assert re.search(r"POST /v1/chat/completions 200", log)
    assert "Repeat" not in log


def test_options() -> None:
    options = ("--model-id", "mine", "--default-max-tokens", "3", "--log-level", "warning")
    key = {"INFERNIX_API_KEY": "k1"}
    with serve("demo", *options, environment=key) as server:
        with openai.OpenAI(base_url=server.url, api_key="k1") as client:
            reply = client.chat.completions.create(model="mine", messages=MESSAGES)
            assert reply.usage.completion_tokens <= 3
        other = openai.OpenAI(base_url=server.url, api_key="k2")
        with other, pytest.raises(openai.AuthenticationError):
            other.models.list()
        server.process.send_signal(signal.SIGINT)
        assert server.end() == 130
    assert len(server.log) == 1


@pytest.mark.parametrize("level", ["basic", "automatic"])
def test_tools_need_no_option_and_their_enforcement_has_one(level: str) -> None:
    """theroyallab/tabbyAPI#479: tool_calls stayed null unless something was configured, and nothing said so."""
    options = () if level == "basic" else ("--tool-constraints", level)
    tool: Any = {"type": "function", "function": {"name": "noop", "strict": False}}
    asked: Any = {"model": "demo", "messages": MESSAGES, "tools": [tool], "max_tokens": 400}
    with serve(*options) as server, openai.OpenAI(base_url=server.url, api_key="x") as client:
        named: Any = {"type": "function", "function": {"name": "noop"}}
        reply = client.chat.completions.create(**asked, tool_choice=named, temperature=0)
        report = reply.model_extra["constraint"]
        assert (report["kind"], report["branch"]) == ("tools", "tools")
        if reply.choices[0].finish_reason == "stop":
            (call,) = reply.choices[0].message.tool_calls
            assert call.function.name == "noop"
            assert isinstance(json.loads(call.function.arguments), dict)
        reply = client.chat.completions.create(**asked)
        assert ("constraint" in reply.model_extra) == (level == "basic")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--port", "99999"), "--port: 99999 is no port"),
        (("--api-key", ""), "--api-key: the API key is empty"),
        (("--api-key", " \n"), "--api-key: the API key is empty"),
        (("--api-key", "a\nb"), "--api-key: the API key holds a control character"),
        (("--max-request-bytes", "0"), "--max-request-bytes: 0 is not possible"),
        (("--drain-timeout", "nan"), "--drain-timeout: nan is not possible"),
        (("--default-max-tokens", "-1"), "--default-max-tokens: -1 is not possible"),
        (("--lanes", "0"), "--lanes: 0 is not possible"),
        (("--queue-limit", "-1"), "--queue-limit: -1 is not possible"),
        (("--pending-timeout", "0"), "--pending-timeout: 0.0 is not possible"),
        (("--model-id", " "), "--model-id: the name is empty"),
        (("--max-context", "9999"), "--max-context: the checkpoint was made for 2048"),
        (("no/such",), "neither a checkpoint directory nor a bundled checkpoint"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_impossible_starts_are_one_line(
    arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture
) -> None:
    assert main(["serve", "--port", "0", *arguments]) in (1, 2)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("infernix: error: ")
    assert said in captured.err
    assert captured.err.count("\n") == 1


def test_a_taken_port_shows_before_the_model_is_loaded(capsys: pytest.CaptureFixture) -> None:
    with listen("127.0.0.1", 0) as taken:
        port = str(taken.getsockname()[1])
        assert main(["serve", "--port", port]) == 2
    assert f"cannot listen at 127.0.0.1 port {port}" in capsys.readouterr().err


#: The command, with builds of grammars and rounds of the engine that native code holds up for ever.
HANGING = """
import ctypes, sys
from infernix_core.cli.main import main
from infernix_core.errors import InvalidOption
{patch} = lambda *arguments, **keywords: ctypes.CDLL(None).sleep(3600)
sys.exit(main())
"""
BUILD = HANGING.format(patch="import infernix_xgrammar.provider as p; p.XGrammarBound.compile")
MASK = HANGING.format(patch="import infernix_core.engine.worker as w; w.RoundMasks.fill")


def asked(url: str, **fields: Any) -> socket.socket:
    """A connection on which a constrained completion was asked for."""
    host, port = url.removeprefix("http://").removesuffix("/v1").split(":")
    body = json.dumps(
        {"model": "demo", "prompt": "x", "structured_outputs": {"choice": ["a"]}, **fields}
    )
    connection = socket.create_connection((host, int(port)), timeout=60)
    head = "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
    return connection


@pytest.mark.parametrize(
    ("program", "gone", "number", "code"),
    [
        (BUILD, False, signal.SIGTERM, 0),
        (BUILD, False, signal.SIGINT, 130),
        (BUILD, True, signal.SIGTERM, 0),
        (MASK, False, signal.SIGTERM, 0),
        (MASK, True, signal.SIGINT, 130),
    ],
    ids=["build", "build, interrupted", "abandoned build", "mask", "abandoned mask, interrupted"],
)
def test_it_ends_in_time_whatever_native_code_does(
    program: str, gone: bool, number: int, code: int
) -> None:
    """What was abandoned before is not waited for at all, and what was not for the drain timeout."""
    timeout = 600 if gone else 1
    with serve("--drain-timeout", str(timeout), program=program) as server:
        connections = [asked(server.url, seed=seed) for seed in range(3)]
        time.sleep(1)
        if gone:
            for connection in connections:
                connection.close()
            time.sleep(0.5)
        started = time.monotonic()
        server.process.send_signal(number)
        assert server.end() == code
        assert time.monotonic() - started < 12
        if not gone and program is BUILD:
            for connection in connections:
                assert b" 503 " in connection.recv(100)
        for connection in connections:
            connection.close()
    log = "".join(server.log)
    assert "shutting down" in log
    assert "Traceback" not in log
    assert ("cancelling" in log) == (not gone)


def test_two_servers_that_start_at_once_do_not_share_a_port() -> None:
    # Neither serves yet: both read their models.
    with listen("127.0.0.1", 0) as first, pytest.raises(InvalidOption, match="in use"):
        listen("127.0.0.1", first.getsockname()[1])
