"""Threads of the numerical libraries, asked and set in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

ASK = "from infernix_core import threads; import torch; print(threads.numpy_threads(), torch.get_num_threads())"
SET = "from infernix_core import threads; threads.set_threads(1); " + ASK


def output(code: str, **variables: str) -> str:
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    }
    done = subprocess.run(
        [sys.executable, "-c", code], env=kept | variables, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_one_thread_by_the_environment() -> None:
    assert output(ASK, OMP_NUM_THREADS="1") == "1 1"


def test_one_thread_by_the_command() -> None:
    """``--threads 1`` means numpy's too."""
    assert output(SET) == "1 1"


@pytest.mark.parametrize(("threads", "expected"), [("1", 1), ("3", None), ("", None)])
def test_an_unknown_library(
    threads: str, expected: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from infernix_core import threads as module

    monkeypatch.setattr(module, "_function", lambda verb: None)
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", threads)
    assert module.numpy_threads() == (expected or os.cpu_count())
