"""Reads conversations in the shapes that providers and trainers write; what is not understood is refused.

`shapes` has the table of messages, `rows` the table of rows that hold a conversation.
"""
