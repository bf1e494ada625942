"""The family's model types. Light, since the hooks read them."""

from __future__ import annotations

#: ``model_type`` of a whole checkpoint and of its text part: dense models, mixtures of experts.
DENSE_TYPES = ("qwen3_5", "qwen3_5_text")
MIXTURE_TYPES = ("qwen3_5_moe", "qwen3_5_moe_text")
MODEL_TYPES = (*DENSE_TYPES, *MIXTURE_TYPES)
