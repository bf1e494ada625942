"""The Qwen3.5 family (3.5, 3.6 and 3.8 dense text models) as an Infernix model frontend."""
