"""Engines over the exact toy model, for servers."""

from __future__ import annotations

from tests.core.conftest import make_engine

__all__ = ["make_engine"]
