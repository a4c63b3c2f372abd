"""Environments that are declared over a data file, without any code."""
