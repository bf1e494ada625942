"""The conformance suite on the protocol of the hook's page, by the page's own test."""

from __future__ import annotations

import sys
import types
from unittest import mock

from tests.docs.pages import blocks

(EXAMPLE,) = (b for b in blocks("python") if b.page == "docs/hooks/protocol.md")
(PROOF,) = (
    b for b in blocks("python no-run") if b.page == "docs/hooks/protocol.md" and "Suite" in b.text
)

#: Where the example ends and its trial begins, which test_pages.py runs.
TRIAL = "\n# Try it, "


def page_suite() -> type:
    """The test class of the page, with the page's adapter installed as the module that it names."""
    adapter = types.ModuleType("infernix_plain_text.adapter")
    code, trial, _ = EXAMPLE.text.partition(TRIAL)
    assert trial
    exec(compile(code, str(EXAMPLE), "exec"), vars(adapter))
    modules = {
        "infernix_plain_text": types.ModuleType("infernix_plain_text"),
        adapter.__name__: adapter,
    }
    namespace = {"__name__": __name__}
    with mock.patch.dict(sys.modules, modules):
        exec(PROOF.compiled(), namespace)
    return namespace["TestPlainText"]


TestPlainText = page_suite()
