"""The HTTP server: one aiohttp application over one engine, for any installed wire protocol."""
