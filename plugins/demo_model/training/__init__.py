"""Scripts that made the bundled checkpoint; run them as ``python -m training.<name>``."""
