"""The default sampler: plain torch, on any device."""
