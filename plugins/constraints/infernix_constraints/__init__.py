"""The front doors of constrained decoding: constraint texts in, one small grammar out. No torch, no grammar library."""
