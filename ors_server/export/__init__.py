"""Records in the formats of trainers and other tools, and back; one episode is in memory at a time.

`formats` makes lines and rows, `preferences` makes pairs, `tables` and `writing` write files.
"""
