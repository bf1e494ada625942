"""Lowering of reduced JSON Schemas to grammars."""

from .lowering import lower_schema

__all__ = ["lower_schema"]
