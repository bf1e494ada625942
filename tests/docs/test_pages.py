"""What the pages say is so: hooks, links, code, commands with their output, and the schema keywords."""

from __future__ import annotations

import argparse
import re
import shlex
from pathlib import Path

import pytest
import torch

from infernix_core import hookspecs
from infernix_core.cli.main import CORE_COMMANDS, build_parser, main
from infernix_core.descriptors import CliCommand
from infernix_core.plugins import FAMILIES, PluginRegistry
from tests.docs.pages import DOCS, EXAMPLE, PAGES, ROOT, blocks

INFOS = {"", "console", "python", "python no-run", "sh", "sh run", "sh test", "toml", "json"}
HOOK_PAGES = {
    hook: DOCS / "hooks" / f"{family.replace(' ', '-')}.md"
    for hook, (_, family) in FAMILIES.items()
    if hook != "infernix_cli_commands"
} | {"infernix_cli_commands": DOCS / "hooks" / "cli-command.md"}


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("hook", sorted(FAMILIES))
def test_every_hook_has_a_page_that_names_it(hook: str) -> None:
    text = HOOK_PAGES[hook].read_text("utf-8")
    kind, _ = FAMILIES[hook]
    assert text.startswith(f"# {hook}\n")
    assert f"def {hook}() -> Iterable[{kind.__name__}]" in text
    assert hasattr(hookspecs, hook)
    for heading in ("## Contract", "## Errors", "## Example"):
        assert heading in text
    assert "@hookimpl" in text


def test_every_hook_page_is_of_a_hook() -> None:
    assert set((DOCS / "hooks").iterdir()) == set(HOOK_PAGES.values())


def links(page: Path) -> list[str]:
    text = re.sub(r"```.*?^```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"\]\(([^)\s]+)\)", text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_resolve(page: Path) -> None:
    for link in links(page):
        if not link.startswith(("http://", "https://")):
            assert (page.parent / link.partition("#")[0]).exists(), link


def test_every_page_is_reached_from_the_index() -> None:
    reached, todo = set(), [DOCS / "index.md"]
    while todo:
        page = todo.pop().resolve()
        if page not in reached and page.suffix == ".md" and page.is_file():
            reached.add(page)
            todo += [page.parent / link.partition("#")[0] for link in links(page)]
    assert set(DOCS.rglob("*.md")) <= reached


def test_info_strings_are_known() -> None:
    """A misspelt info string would take a block out of these tests."""
    found = {
        line.removeprefix("```").strip()
        for page in PAGES
        for line in page.read_text("utf-8").splitlines()
        if line.startswith("```")
    }
    assert found <= INFOS


@pytest.mark.parametrize("block", blocks("python", "python no-run"), ids=str)
def test_python_compiles(block) -> None:
    block.compiled()


@pytest.mark.parametrize("block", blocks("python"), ids=str)
def test_python_runs(block, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(EXAMPLE))
    exec(block.compiled(), {"__name__": "documentation"})


@pytest.fixture(scope="module")
def parser() -> argparse.ArgumentParser:
    """The real program's, and the example plugin's command."""
    registry = PluginRegistry.discover()
    commands = [*CORE_COMMANDS, *registry.all(CliCommand)]
    if "copyable" not in {command.name for command in commands}:
        with pytest.MonkeyPatch.context() as patch:
            patch.syspath_prepend(str(EXAMPLE))
            from infernix_copy_drafts import hooks
        commands += hooks.infernix_cli_commands()
    return build_parser(commands)


def commands() -> list[tuple[str, str, bool]]:
    """Place, command line, and whether it is meant to be typed as it stands."""
    found = []
    for block in blocks("", "sh", "sh run", "console"):
        for line in block.text.splitlines():
            for part in re.split(r"&&", line.removeprefix("$ ")):
                words = part.strip().removeprefix(".venv/bin/")
                if words.startswith("infernix "):
                    found.append((str(block), words, block.info != ""))
    return found


@pytest.mark.parametrize(("place", "line", "exact"), commands(), ids=str)
def test_commands_are_what_the_program_takes(parser, place: str, line: str, exact: bool) -> None:
    if exact:
        parser.parse_args(shlex.split(line, comments=True)[1:])
        return
    (subparsers,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    command = subparsers.choices[line.split()[1]]
    options = {option for action in command._actions for option in action.option_strings}
    assert set(re.findall(r"(?<=\s)--[a-z-]+", line)) <= options


@pytest.mark.parametrize("block", blocks("console"), ids=str)
def test_console_output_is_real(
    block, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.chdir(ROOT)
    code, output = 0, ""
    shown = re.split(r"^\$ (.*)\n", block.text, flags=re.MULTILINE)
    assert shown[0] == ""
    for line, expected in zip(shown[1::2], shown[2::2], strict=True):
        if line == "echo $?":
            output = f"{code}\n"
        else:
            program, *arguments = shlex.split(line)
            assert program == "infernix"
            code = main(arguments)
            captured = capsys.readouterr()
            output = captured.out + captured.err
        assert output == expected, line


def test_the_page_lists_the_schema_keywords_of_the_code() -> None:
    from infernix_constraints.json_schema.keywords import ASSERTING, DESCRIBING

    text = (DOCS / "constraints.md").read_text("utf-8")
    part = text.partition("<!-- keywords: begin -->")[2].partition("<!-- keywords: end -->")[0]
    first = "\n".join(line.split("|")[1] for line in part.splitlines() if line.startswith("| `"))
    listed = re.findall(r"`([^`]+)`", first)
    assert len(listed) == len(set(listed))
    assert set(listed) == set(ASSERTING) | set(DESCRIBING)


def test_the_page_names_the_formats_of_the_code() -> None:
    from infernix_constraints.strings.formats import FORMATS

    text = (DOCS / "constraints.md").read_text("utf-8")
    (row,) = (line for line in text.splitlines() if line.startswith("| `format`"))
    assert set(re.findall(r"`([^`]+)`", row)) == {"format", *FORMATS}
