"""One file for every form that the tables have had."""
