"""Drafts by copying: an example plugin."""
