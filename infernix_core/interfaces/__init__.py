"""Typed contracts between the core and its plugins. Each module is one family; this package imports none."""
