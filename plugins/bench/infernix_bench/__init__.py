"""Measures the engine: decoding, compilation, masks and mixed batches."""
