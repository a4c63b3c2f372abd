"""Grades an agent's files and programs, out of reach of the processes that it left running."""
