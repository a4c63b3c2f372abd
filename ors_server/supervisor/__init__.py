"""`serve --workers N`: hosts, each a whole server, behind one HAProxy, and what keeps all of them up."""
