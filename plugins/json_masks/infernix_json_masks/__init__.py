"""Exact token masks for the languages whose contents are JSON."""
