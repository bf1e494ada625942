"""DFlash2 drafts: a speculative backend."""
