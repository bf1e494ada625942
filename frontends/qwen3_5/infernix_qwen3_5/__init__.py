"""The Qwen3.5 family (3.5, 3.6 and 3.8 text models, dense and mixtures of experts) as an Infernix model frontend."""
