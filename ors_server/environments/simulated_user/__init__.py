"""Users who answer an agent: by a script, by a function, or by a language model."""
