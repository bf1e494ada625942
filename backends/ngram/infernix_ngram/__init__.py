"""N-gram drafts: a speculative backend."""
