"""Takes up the sessions of a server that was killed, from their records."""
