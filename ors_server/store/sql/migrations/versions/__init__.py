"""One file for every version of the schema."""
