"""Packages of one environment, for pip, containers, Hugging Face Spaces, OpenEnv and Harbor.

Each package is a folder of files, which needs neither an account nor a network to make.
"""
