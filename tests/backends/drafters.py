"""Drafters of the tiny model whose law is known exactly."""
