"""The console: pages for a browser about what the server does and has on record."""
