import argparse
import json

import pytest

from infernix_constraints import hooks
from infernix_core.cli.constraint_options import constraint_from_arguments
from infernix_core.cli.main import main
from infernix_core.errors import InvalidOption
from infernix_core.interfaces.constraints import Choice, Grammar, JsonObject, JsonSchema, Regex
from infernix_core.plugins import PluginRegistry


@pytest.fixture(scope="module")
def registry():
    from infernix_xgrammar import hooks as xgrammar_hooks

    registry = PluginRegistry()
    registry.register(hooks, "constraints")
    registry.register(xgrammar_hooks, "xgrammar")
    return registry


@pytest.fixture
def run(registry, capsys, monkeypatch):
    monkeypatch.setattr(PluginRegistry, "discover", lambda **_: registry)

    def run(*words):
        code = main(["check", *words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_the_hook_gives_the_command():
    (command,) = hooks.infernix_cli_commands()
    assert command.name == "check"


def test_a_constraint_alone_is_explained(run, tmp_path):
    assert run("--regex", "[a-c]{2,3}|é") == (0, 'root ::= [a-c]{2,3} | "é"\n', "")
    code, out, _ = run("--json-object")
    assert code == 0
    assert out.startswith("root = {")
    schema = {"type": "object", "properties": {"line": {"type": "integer"}}, "required": ["line"]}
    file = tmp_path / "schema.json"
    file.write_text(json.dumps(schema))
    code, out, _ = run("--json-schema-file", str(file))
    assert code == 0
    assert '"line"' in out


@pytest.mark.parametrize(
    ("words", "code", "verdict"),
    [
        (["--regex", "a+", "--text", "aa"], 0, "complete"),
        (["--regex", "a+", "--text", ""], 3, "prefix"),
        (["--regex", "a+", "--text", "aab"], 1, "refused at byte 2"),
        (["--json-object", "--text", '{"a": 1,}'], 1, "refused at byte 8"),
        (["--json-object", "--text", '{"a": [1, 2'], 3, "prefix"),
        (["--choice", "red", "--choice", "reddish", "--text", "red"], 0, "complete"),
        (["--choice", "é", "--text", "è"], 1, "refused at byte 1"),
    ],
)
def test_a_text_is_judged(words, code, verdict, run):
    assert run(*words) == (code, verdict + "\n", "")


def test_files(run, tmp_path):
    grammar = tmp_path / "edit.gbnf"
    grammar.write_text('root ::= "edit " [0-9]+ "\\n"\n')
    text = tmp_path / "text"
    text.write_bytes(b"edit 7\n")
    arguments = ["--grammar-file", str(grammar)]
    assert run(*arguments, "--text-file", str(text)) == (0, "complete\n", "")
    assert run(*arguments)[:2] == (0, 'root ::= "edit " [0-9]+ "\\n"\n')


def test_errors_are_one_line_and_say_where(run, tmp_path):
    bad = tmp_path / "bad.gbnf"
    bad.write_text('root ::= "a"\n  | "b\n')
    latin = tmp_path / "latin.gbnf"
    latin.write_bytes(b'root ::= "\xe9"')
    cases = [
        (["--grammar-file", str(bad)], 1, "line 2, column 5"),
        (["--regex", "foo**"], 1, "offset 4"),
        (["--regex", "a", "--json-object"], 2, "exclude each other"),
        (["--grammar-file", str(tmp_path / "none")], 2, "--grammar-file"),
        (["--grammar-file", str(tmp_path)], 2, "--grammar-file"),
        (["--grammar-file", str(latin)], 2, "UTF-8"),
        (["--json-object", "--text-file", str(latin)], 2, "--text-file: "),
        ([], 2, "no constraint"),
        (["--regex", "a", "--text", "\udcff"], 2, "--text: "),
        (["--regex", "a", "--mask-provider", "none"], 2, "no mask provider 'none'"),
    ]
    for words, code, message in cases:
        found, out, err = run(*words)
        assert (found, out, err.count("\n")) == (code, "", 1), err
        assert message in err


def namespace(**values):
    names = ("grammar_file", "json_schema_file", "regex", "choice")
    return argparse.Namespace(
        **{**dict.fromkeys(names), "json_object": False, "compact_json": False, **values}
    )


def test_options_become_constraints(tmp_path):
    file = tmp_path / "text"
    file.write_text('{"type": "string"}')
    assert constraint_from_arguments(namespace()) is None
    assert constraint_from_arguments(namespace(json_object=True)) == JsonObject()
    assert constraint_from_arguments(namespace(regex="")) == Regex("")
    assert constraint_from_arguments(namespace(choice=["b", "a"])) == Choice(["a", "b"])
    assert constraint_from_arguments(namespace(grammar_file=file)) == Grammar(file.read_text())
    assert constraint_from_arguments(namespace(json_schema_file=file)) == JsonSchema(
        file.read_text()
    )
    with pytest.raises(InvalidOption) as caught:
        constraint_from_arguments(namespace(regex="a", choice=["b"]))
    assert caught.value.location.field == "--choice"
