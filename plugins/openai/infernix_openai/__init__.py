"""The OpenAI wire protocol: models, chat completions and completions."""
