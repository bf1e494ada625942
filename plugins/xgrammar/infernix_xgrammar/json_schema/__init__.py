"""Lowering of reduced JSON Schemas to grammars."""

from infernix_xgrammar.json_schema.lowering import lower_schema

__all__ = ["lower_schema"]
