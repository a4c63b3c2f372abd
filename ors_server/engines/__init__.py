"""Where sessions live: one interface, one file per place."""
