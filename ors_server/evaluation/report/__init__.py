"""Reports of runs as single web pages that need nothing but a browser: no network, and no script to read."""
