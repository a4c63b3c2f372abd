"""The persistent shell of a session: one bash on a private terminal."""
