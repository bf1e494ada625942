"""MTP drafts: a speculative backend."""
