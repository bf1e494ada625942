"""Exit codes of ``infernix``."""

DONE = 0
REQUEST = 1
"""The request cannot be served: bad input, a bad checkpoint, a dead end."""
USAGE = 2
"""The command line is wrong."""
INCOMPLETE = 3
"""The output ended at a limit; under a constraint it may be an incomplete text."""
INTERRUPTED = 130
"""Ctrl-C."""
