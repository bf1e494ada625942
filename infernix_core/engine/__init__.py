"""The engine: requests in, published tokens out, one worker thread between them."""
