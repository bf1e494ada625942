"""A tiny Qwen3.5 checkpoint that extracts records as JSON, shipped as package data."""
