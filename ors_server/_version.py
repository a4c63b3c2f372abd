"""The package's version: its own module, so that no module imports the facade for it."""

__version__ = "0.1.0"
