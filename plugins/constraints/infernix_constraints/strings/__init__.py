"""Languages of strings as deterministic automata over Unicode characters."""
