"""The conformance suites find faults: every class of the modules of mutants fails in one of its tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from infernix_core.testing.conformance import ProtocolSuite
from tests.core import protocol_mutants

ROOT = Path(__file__).resolve().parents[2]

#: Runs a module and prints its classes without a failure. The rest of a class that has failed is left out, and of one
#: that says by which test it is caught, all others.
RUN = """
import sys
import pytest

class Faults:
    passed, failed = set(), set()

    def pytest_collection_modifyitems(self, items):
        items[:] = [
            item for item in items if getattr(item.cls, "caught_by", item.originalname) == item.originalname
        ]

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
pytest.main(["-q", "-p", "no:cacheprovider", "--tb=no", "--no-summary", sys.argv[1]], plugins=[faults])
print(len(faults.failed), "found; missed:", sorted(c.__name__ for c in faults.passed - faults.failed))
"""


@pytest.mark.parametrize("module", ["conformance_mutants", "protocol_mutants"])
def test_every_fault_is_found(module: str) -> None:
    path = f"tests/core/{module}.py"
    result = subprocess.run(
        [sys.executable, "-c", RUN, path],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
        timeout=300,
    )
    last = result.stdout.splitlines()[-1]
    classes = (ROOT / path).read_text("utf-8").count("\nclass Test")
    assert last == f"{classes} found; missed: []", result.stdout


def test_every_test_of_protocols_finds_a_fault() -> None:
    tests = {name for name in dir(ProtocolSuite) if name.startswith("test_")}
    mutants = [value for value in vars(protocol_mutants).values() if hasattr(value, "caught_by")]
    assert {mutant.caught_by for mutant in mutants} == tests
