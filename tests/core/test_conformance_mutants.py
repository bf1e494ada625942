"""The conformance suites find faults: every class of conformance_mutants.py fails in one of its tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MUTANTS = "tests/core/conformance_mutants.py"

#: Runs the module and prints its classes without a failure. The rest of a class that has failed is left out.
RUN = f"""
import sys
import pytest

class Faults:
    passed, failed = set(), set()

    def pytest_runtest_setup(self, item):
        if item.cls in self.failed:
            pytest.skip("found already")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item, call):
        report = yield
        if report.when == "call" or report.failed:
            (self.failed if report.failed and report.when == "call" else self.passed).add(item.cls)
        return report

faults = Faults()
pytest.main(["-q", "-p", "no:cacheprovider", "--tb=no", "--no-summary", {MUTANTS!r}], plugins=[faults])
print(len(faults.failed), "found; missed:", sorted(c.__name__ for c in faults.passed - faults.failed))
"""


def test_every_fault_is_found() -> None:
    result = subprocess.run(
        [sys.executable, "-c", RUN],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
        timeout=300,
    )
    last = result.stdout.splitlines()[-1]
    classes = (ROOT / MUTANTS).read_text("utf-8").count("\nclass Test")
    assert last == f"{classes} found; missed: []", result.stdout
