"""The core of Infernix: interfaces, plugin discovery and the engine.

Importing this package is cheap: it loads neither torch nor any plugin.
"""

__version__ = "0.1.0"
