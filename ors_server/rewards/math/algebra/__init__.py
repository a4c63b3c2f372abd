"""A second opinion by a computer algebra system, on answers that the fast comparison cannot decide.

Texts are read here, into trees of this project's own (`statements`); trees are compared in a worker process
that can be killed (`judge` and below). No module that the server imports imports SymPy, and no text ever
reaches it.
"""
