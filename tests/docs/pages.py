"""The pages of the documentation, and the fenced blocks in them."""

from __future__ import annotations

import re
from pathlib import Path

from attrs import frozen

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
EXAMPLE = DOCS / "examples" / "copy_drafts"
SAMPLER_EXAMPLE = DOCS / "examples" / "entropy_log"
PAGES = (ROOT / "README.md", *sorted(DOCS.rglob("*.md")))

_FENCE = re.compile(r"^```(.*?)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@frozen
class Block:
    """A fenced block.

    Attributes:
        page: Its page, from the root.
        line: Of its opening fence.
        info: What stands behind the opening fence.
    """

    page: str
    line: int
    info: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    def compiled(self):
        """The code, with the line numbers of the page."""
        return compile("\n" * self.line + self.text, str(ROOT / self.page), "exec")


def blocks(*infos: str) -> list[Block]:
    """Every block of every page whose info string is one of these."""
    found = []
    for page in PAGES:
        text = page.read_text("utf-8")
        for match in _FENCE.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            block = Block(str(page.relative_to(ROOT)), line, match[1].strip(), match[2])
            if block.info in infos:
                found.append(block)
    return found
