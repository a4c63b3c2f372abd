"""The rows of data files: one module for each format, and the index that finds a row by its number."""
