"""The command line as a user meets it: the first command, and every kind of bad input in one line."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.end_to_end.command import assert_one_line
from tests.end_to_end.test_random_weights import demo_directory

ROOT = Path(__file__).resolve().parents[2]
SENTENCE = "NullPointerException in Parser.java at line 88, crashes the build"
PROMPT = f"Extract file, line, and severity as JSON from: {SENTENCE}"
SCHEMA = str(ROOT / "docs" / "examples" / "bug-report.schema.json")


def test_the_first_command_of_the_readme(infernix) -> None:
    result = infernix("generate", "--prompt", PROMPT, "--json-schema-file", SCHEMA, "--greedy")
    assert json.loads(result.out) == {"file": "Parser.java", "line": 88, "severity": "high"}
    assert result.code == 0
    assert "constraint: json_schema, complete, terminated" in result.err
    readme = (ROOT / "README.md").read_text("utf-8")
    assert f'--prompt "{PROMPT}"' in readme


def test_constraint_stats_are_reported_on_request(infernix) -> None:
    asked = ("generate", "--prompt", PROMPT, "--choice", "yes", "--greedy", "--constraint-stats")
    line = re.search(
        r"kept mass mean (\S+), least (\S+), below 0\.1 at (\d+) of (\d+) tokens",
        infernix(*asked).err,
    )
    mean, least = float(line[1]), float(line[2])
    assert 0 <= least <= mean + 5e-4 <= 1.001
    # The demo model would answer with JSON; "yes" goes against it at the first token.
    assert 1 <= int(line[3]) <= int(line[4])
    assert "kept mass" not in infernix(*asked[:-1]).err


def test_it_runs_as_a_program_and_keeps_to_its_streams() -> None:
    command = [sys.executable, "-m", "infernix_core.cli.main", "generate", "--prompt", PROMPT]
    result = subprocess.run(
        [*command, "--greedy", "--quiet", "--choice", "yes", "--choice", "no"],
        capture_output=True,
        check=False,
        cwd=ROOT,
    )
    assert result.stdout in (b"yes", b"no")
    assert (result.returncode, result.stderr) == (0, b"")


def test_on_a_terminal_nothing_erases_the_answer() -> None:
    """Both streams on one pseudo-terminal, whose lines are then read as a terminal would show them."""
    import pty

    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "infernix_core.cli.main", "generate", "--prompt", PROMPT]
    process = subprocess.Popen(
        [*command, "--greedy", "--json-schema-file", SCHEMA],
        stdin=follower,
        stdout=follower,
        stderr=follower,
        cwd=ROOT,
    )
    os.close(follower)
    shown = b""
    while True:
        try:
            piece = os.read(leader, 4096)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        shown += piece
    os.close(leader)
    assert process.wait() == 0
    lines = []
    for line in shown.decode().split("\r\n"):
        lines.append(line.rsplit("\r\x1b[2K", 1)[-1])
    assert json.loads(lines[0]) == {"file": "Parser.java", "line": 88, "severity": "high"}
    assert lines[1].startswith("finish: stop")


def test_a_reader_that_leaves_early_is_no_traceback() -> None:
    command = f"{sys.executable} -m infernix_core.cli.main plugins | head -c 1"
    result = subprocess.run(["bash", "-c", command], capture_output=True, check=False, cwd=ROOT)
    assert b"Traceback" not in result.stderr


def test_the_same_seed_gives_the_same_text_and_ids_are_printed(infernix) -> None:
    options = ("generate", "--prompt", PROMPT, "--seed", "5", "--print-token-ids", "--quiet")
    first, second = infernix(*options), infernix(*options)
    assert first.out == second.out
    assert first.err == second.err
    assert all(word.isdigit() for word in first.err.split())


def test_thinking_goes_to_stderr(infernix) -> None:
    result = infernix(
        "generate", "--thinking", "--prompt", PROMPT, "--greedy", "--max-tokens", "200",
        "--choice", "a", "--choice", "b",
    )  # fmt: skip
    assert result.out in ("a", "b", "")
    assert len(result.err.splitlines()) > 3
    assert result.code == (0 if result.out else 3)


def test_a_length_is_exit_code_3(infernix) -> None:
    result = infernix(
        "generate", "--prompt", PROMPT, "--json-schema-file", SCHEMA, "--max-tokens", "4"
    )
    assert result.code == 3
    assert "finish: length" in result.err
    assert "incomplete, not terminated" in result.err


def test_messages_from_a_file(infernix, tmp_path: Path) -> None:
    messages = [{"role": "user", "content": PROMPT}]
    for document in (messages, {"messages": messages}):
        path = tmp_path / "messages.json"
        path.write_text(json.dumps(document))
        result = infernix(
            "generate", "--messages", str(path), "--json-schema-file", SCHEMA, "--greedy"
        )
        assert json.loads(result.out)["line"] == 88


def test_a_raw_prompt_and_its_grammar(infernix, tmp_path: Path) -> None:
    grammar = tmp_path / "status.gbnf"
    grammar.write_text('root ::= "status=" ("ok" | "error") "\\n"')
    result = infernix("generate", "--raw-prompt", "log: ", "--grammar-file", str(grammar))
    assert result.out in ("status=ok\n", "status=error\n")


def demo(tmp_path: Path) -> Path:
    directory = tmp_path / "model"
    shutil.copytree(demo_directory(), directory)
    return directory


BROKEN = {
    "nothing there": (lambda d: shutil.rmtree(d), "neither a checkpoint directory"),
    "no config": (lambda d: (d / "config.json").unlink(), "config.json is missing"),
    "config no JSON": (lambda d: (d / "config.json").write_text("{"), "config.json"),
    "config no object": (lambda d: (d / "config.json").write_text("[]"), "no JSON object"),
    "config not UTF-8": (lambda d: (d / "config.json").write_bytes(b"\xff{}"), "config.json"),
    "unknown family": (
        lambda d: (d / "config.json").write_text('{"model_type": "llama"}'),
        "no frontend knows model_type 'llama'; installed frontends: qwen3_5",
    ),
    "no weights": (lambda d: (d / "model.safetensors").unlink(), "safetensors"),
    "weights cut": (
        lambda d: (d / "model.safetensors").write_bytes(
            (d / "model.safetensors").read_bytes()[:5000]
        ),
        "model.safetensors",
    ),
    "weights not fetched": (
        lambda d: (d / "model.safetensors").write_text("version https://git-lfs.github.com/spec"),
        "git lfs pull",
    ),
    "no tokenizer": (lambda d: (d / "tokenizer.json").unlink(), "tokenizer.json"),
    "tokenizer broken": (lambda d: (d / "tokenizer.json").write_text("{}"), "tokenizer.json"),
    "template broken": (
        lambda d: (d / "chat_template.jinja").write_text("{% for %}"),
        "chat template",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_checkpoint_is_one_line(infernix, tmp_path: Path, name: str) -> None:
    directory = demo(tmp_path)
    damage, expected = BROKEN[name]
    damage(directory)
    result = infernix("generate", str(directory), "--prompt", "x")
    assert result.code == 1
    assert_one_line(result, expected)


def test_a_size_that_contradicts_the_weights_names_the_tensor(infernix, tmp_path: Path) -> None:
    directory = demo(tmp_path)
    config = json.loads((directory / "config.json").read_text())
    text = config.get("text_config", config)
    text["intermediate_size"] += 8
    (directory / "config.json").write_text(json.dumps(config))
    result = infernix("generate", str(directory), "--prompt", "x")
    assert result.code == 1
    assert_one_line(result, "mlp")


BAD: dict[str, tuple[Sequence[str], int, str]] = {
    "no prompt": ((), 2, "--prompt, --messages and --raw-prompt"),
    "two prompts": (("--prompt", "x", "--raw-prompt", "y"), 2, "not allowed with"),
    "empty raw prompt": (("--raw-prompt", ""), 1, "empty"),
    "prompt over the context": (("--prompt", "x " * 300, "--max-context", "64"), 1, "context 64"),
    "context too large": (("--prompt", "x", "--max-context", "999999"), 2, "--max-context"),
    "prompt not UTF-8": (("--prompt", "a\udcffb"), 2, "UTF-8"),
    "stop not UTF-8": (("--prompt", "x", "--stop", "a\udcffb"), 2, "UTF-8"),
    "two constraints": (("--prompt", "x", "--regex", "a", "--choice", "b"), 2, "--regex"),
    "two of one": (("--prompt", "x", "--json-object", "--json-schema-file", SCHEMA), 2, "json"),
    "bad regex": (("--prompt", "x", "--regex", "a**"), 1, "offset 2"),
    "unknown sampler": (("--prompt", "x", "--sampler", "nope"), 2, "installed: sampling"),
    "unknown provider": (
        ("--prompt", "x", "--mask-provider", "nope"),
        2,
        "xgrammar (plugin xgrammar)",
    ),
    "unknown backend": (("--prompt", "x", "--spec", "nope"), 2, "no speculative backend 'nope'"),
    "drafts alone": (("--prompt", "x", "--draft-tokens", "3"), 2, "speculative backend"),
    "negative limit": (("--prompt", "x", "--max-tokens", "-1"), 2, "--max-tokens"),
    "top_p": (("--prompt", "x", "--top-p", "7"), 2, "--top-p"),
    "no number": (("--prompt", "x", "--top-k", "many"), 2, "--top-k"),
    "greedy and hot": (("--prompt", "x", "--greedy", "--temperature", "1"), 2, "greedy"),
    "stop and constraint": (("--prompt", "x", "--stop", "a", "--regex", "b"), 2, "stop"),
    "raw and constraint": (("--prompt", "x", "--raw-output", "--regex", "b"), 2, "raw_output"),
    "no constraint": (("--prompt", "x", "--constraint-stats"), 2, "--constraint-stats"),
    "stop id": (("--prompt", "x", "--stop-token-id", "99999999"), 2, "--stop-token-id"),
    "no such device": (("--prompt", "x", "--device", "toaster"), 2, "device"),
    "no such file": (("--messages", "/no/such/file.json"), 2, "/no/such/file.json"),
    "no such schema": (
        ("--prompt", "x", "--json-schema-file", "/no/such.json"),
        2,
        "/no/such.json",
    ),
    "no such grammar": (("--prompt", "x", "--grammar-file", "/no/such.gbnf"), 2, "/no/such.gbnf"),
    "thinking raw": (("--raw-prompt", "x", "--thinking"), 2, "--thinking"),
    "no such option": (("--prompt", "x", "--frobnicate"), 2, "--frobnicate"),
    "regex not UTF-8": (("--prompt", "x", "--regex", "a\udcffb"), 2, "UTF-8"),
    "choice not UTF-8": (("--prompt", "x", "--choice", "a\udcffb"), 2, "UTF-8"),
    "threads": (("--prompt", "x", "--threads", "0"), 2, "thread"),
    "too many threads": (("--prompt", "x", "--threads", "1" + "0" * 20), 2, "1 to 1024"),
    "empty model": (("", "--prompt", "x"), 1, "neither a checkpoint directory"),
    "regex twice": (("--prompt", "x", "--regex", "a", "--regex", "b"), 2, "--regex is given twice"),
    "schema twice": (
        ("--prompt", "x", "--json-schema-file", SCHEMA, "--json-schema-file", SCHEMA),
        2,
        "given twice",
    ),
    "hub id": (("Qwen/Qwen3.5-0.8B", "--prompt", "x"), 1, "hf download Qwen/Qwen3.5-0.8B"),
    "a file": ((SCHEMA, "--prompt", "x"), 1, "give the directory that holds the file"),
    "long seed": (("--prompt", "x", "--seed", "9" * 25), 2, "--seed"),
    "helpful help": (("--prompt", "x", "--temp", "0"), 2, "see infernix generate --help"),
    "bare stop": (("--prompt", "x", "--stop", "x" * 2000), 2, "at most 1024"),
    "chunk": (("--prompt", "x", "--prefill-chunk", "0"), 2, "--prefill-chunk"),
    "seed": (("--prompt", "x", "--seed", "-1"), 2, "seed"),
    "empty stop": (("--prompt", "x", "--stop", ""), 2, "stop"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line_and_says_what_to_do(infernix, name: str) -> None:
    arguments, code, expected = BAD[name]
    result = infernix("generate", *arguments)
    assert result.code == code
    assert_one_line(result, expected)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"\xff", "UTF-8"),
        (b"{", "JSON"),
        (b'{"message": []}', "message"),
        (b"7", "arrays"),
        (b"[7]", "0"),
        (b'[{"role": "user"}]', "content"),
        (b'[{"role": "clown", "content": "x"}]', "clown"),
        (b'[{"role": "user", "content": [{"type": "image", "image": "x"}]}]', "image"),
        (b"[]", "message"),
        (b"[" * 100000, "JSON"),
    ],
)
def test_bad_messages_are_one_line(infernix, tmp_path: Path, content: bytes, expected: str) -> None:
    path = tmp_path / "messages.json"
    path.write_bytes(content)
    result = infernix("generate", "--messages", str(path))
    assert result.code in (1, 2)
    assert_one_line(result, expected)


@pytest.mark.parametrize(
    ("option", "content", "expected"),
    [
        ("--grammar-file", b"\xff", "UTF-8"),
        ("--grammar-file", b'root ::= "a\nb ::= c', "line 1"),
        ("--grammar-file", b'root ::= "a" | b', "line 1, column 16"),
        ("--json-schema-file", b"\xff", "UTF-8"),
        ("--json-schema-file", b"{", "line 1"),
        ("--json-schema-file", b'{"properties": {"a": {"uniqueItems": true}}}', "/properties/a"),
        ("--json-schema-file", b"false", "at the root"),
    ],
)
def test_bad_constraint_files_are_located(
    infernix, tmp_path: Path, option: str, content: bytes, expected: str
) -> None:
    path = tmp_path / "constraint"
    path.write_bytes(content)
    result = infernix("generate", "--prompt", "x", option, str(path))
    assert result.code == (2 if expected == "UTF-8" else 1)
    assert_one_line(result, expected)


@pytest.mark.parametrize(
    "options",
    [
        ("generate", "--prompt", "-", "--grammar-file", "-"),
        ("generate", "--messages", "-", "--json-schema-file", "-"),
        ("check", "--grammar-file", "-", "--text-file", "-"),
    ],
)
def test_stdin_has_one_reader(infernix, options: Sequence[str]) -> None:
    result = infernix(*options)
    assert result.code == 2
    assert_one_line(result, "both read stdin")


def test_control_characters_in_an_error_do_not_reach_the_terminal(infernix) -> None:
    result = infernix("generate", "/no\x1b[31mred", "--prompt", "x")
    assert result.code == 1
    assert_one_line(result, r"/no\x1b[31mred")


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    ("redirection", "environment", "code", "expected"),
    [
        (">/dev/full", {}, 1, b"No space left"),
        (">&-", {}, 2, b"standard output is closed"),
        ("", {"PYTHONIOENCODING": "latin-1"}, 0, b""),
    ],
)
def test_unusual_standard_outputs(
    redirection: str, environment: dict[str, str], code: int, expected: bytes, unbuffered: str
) -> None:
    command = f"{sys.executable} -m infernix_core.cli.main check --choice € {redirection}"
    result = subprocess.run(
        ["bash", "-c", command],
        capture_output=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered, **environment},
    )
    assert result.returncode == code
    assert expected in result.stderr
    assert b"Traceback" not in result.stderr
    if not code:
        assert result.stdout == 'root ::= "€"\n'.encode()


def test_a_prompt_over_the_checkpoints_own_context_is_not_told_to_raise_it(infernix) -> None:
    result = infernix("generate", "--prompt", "x " * 3000)
    assert result.code == 1
    assert_one_line(result, "the context 2048 (shorten the prompt)")


def test_a_byte_order_mark_is_dropped(infernix, tmp_path: Path) -> None:
    path = tmp_path / "bom"
    path.write_bytes(b"\xef\xbb\xbf" + b'{"const": 1}')
    assert infernix("check", "--json-schema-file", str(path)).out == "root = 1\n"


def test_an_empty_language_is_refused_by_check(infernix, tmp_path: Path) -> None:
    path = tmp_path / "empty.gbnf"
    path.write_text('root ::= "x" root')
    result = infernix("check", "--grammar-file", str(path))
    assert result.code == 1
    assert_one_line(result, "no text satisfies")


@pytest.mark.parametrize("mode", ["exit_at_once", "raise_exception"])
def test_an_interrupt_is_one_line(mode: str) -> None:
    """While starting, where an exception could be lost in foreign code, and while a request runs."""
    program = f"""
import time
from infernix_core.cli import interrupts, main, plugins
from infernix_core.descriptors import CliCommand
def run(namespace, registry):
    interrupts.{mode}()
    print("ready", flush=True)
    time.sleep(60)
main.CORE_COMMANDS = (CliCommand("wait", "", lambda parser: None, run),)
raise SystemExit(main.main(["wait"]))
"""
    process = subprocess.Popen([sys.executable, "-c", program], stdout=-1, stderr=-1, cwd=ROOT)
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, b"infernix: interrupted\n")


def test_an_unknown_command_and_no_command(infernix) -> None:
    assert infernix("frobnicate").code == 2
    assert infernix().code == 2
    assert infernix("--version").out.startswith("infernix ")


def test_unknown_plugin_names_in_the_environment(infernix, monkeypatch) -> None:
    monkeypatch.setenv("INFERNIX_BLOCK_PLUGINS", "nope")
    result = infernix("generate", "--prompt", "x")
    assert result.code == 2
    assert_one_line(result, "INFERNIX_BLOCK_PLUGINS names nope")


def test_plugins_are_listed(infernix, monkeypatch) -> None:
    result = infernix("plugins")
    assert result.code == 0
    header, *rows = result.out.splitlines()
    assert header.split() == ["name", "kind", "distribution", "version", "status"]
    names = {row.split()[0] for row in rows}
    assert {"constraints", "demo_model", "qwen3_5", "sampling", "xgrammar"} <= names
    monkeypatch.setenv("INFERNIX_LOAD_PLUGINS", "sampling")
    records = json.loads(infernix("plugins", "--json").out)
    assert {r["name"] for r in records if r["status"] == "loaded"} == {"sampling"}
