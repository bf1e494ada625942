"""For the whole suite: one thread per process, since models are tiny and processes share the cores."""

import os
import signal

# Before anything imports numpy or torch, whose libraries read it once.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# A shell starts what it runs in the background with interrupts ignored, and so would be every program that a test
# starts and interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
