"""DFlash drafts: a speculative backend."""
