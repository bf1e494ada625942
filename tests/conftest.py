"""For the whole suite: one thread per process, since models are tiny and processes share the cores."""

import os

# Before anything imports numpy or torch, whose libraries read it once.
os.environ.setdefault("OMP_NUM_THREADS", "1")
