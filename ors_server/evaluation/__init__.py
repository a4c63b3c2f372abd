"""Evaluation: agents play tasks, and figures say how well."""
