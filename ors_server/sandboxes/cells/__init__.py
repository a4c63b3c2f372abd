"""Cells: the folders, users, cgroups and processes of one session on this host."""
