"""A second comparison by a computer algebra system, for answers that the fast comparison cannot decide.

Texts are parsed here, into this project's own trees (`answer_statements`); trees are compared in a worker
process that can be killed (`judge` and below). No module that the server imports imports SymPy, and no text
reaches SymPy.
"""
