"""Source files and data files: importing a module from a path, docstrings of attributes, atomic writes."""
