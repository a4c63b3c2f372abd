"""The HTTP server that runs the application, and the limits on what one client may take."""
