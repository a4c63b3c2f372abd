"""Requests from bytes: the HTTP server that runs the application, and what one client may take of it."""
