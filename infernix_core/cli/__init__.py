"""The ``infernix`` program. Answers go to stdout, everything else to stderr."""
