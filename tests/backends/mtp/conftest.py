from __future__ import annotations

import torch

# The machine's cores are shared; the tiny models of these tests gain nothing from more threads.
torch.set_num_threads(1)
