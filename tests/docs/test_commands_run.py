"""Blocks that are more than a parsable command line: they are done as they stand."""

from __future__ import annotations

import shlex
import tomllib
from pathlib import Path

import pytest

from infernix_core.cli import exit_codes
from infernix_core.cli.main import main
from tests.docs.pages import EXAMPLE, blocks


def test_the_pages_pyproject_is_the_examples() -> None:
    """All that it needs; a description and a README may be left out."""
    (block,) = (b for b in blocks("toml") if b.page == "docs/writing-a-plugin.md")
    shown = tomllib.loads(block.text)
    real = tomllib.loads((EXAMPLE / "pyproject.toml").read_text("utf-8"))
    for key in ("description", "readme"):
        del real["project"][key]
    assert shown == real


def test_a_random_checkpoint_answers_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    (block,) = (b for b in blocks("sh") if "random_checkpoint" in b.text)
    make, generate = map(shlex.split, block.text.splitlines())
    assert make[:2] == ["python", "-c"]
    exec(make[2], {})
    assert generate[0] == "infernix"
    code = main([*generate[1:], "--threads", "1", "--seed", "1"])
    assert code in (exit_codes.DONE, exit_codes.INCOMPLETE)
    assert capsys.readouterr().out.lstrip().startswith("{")
