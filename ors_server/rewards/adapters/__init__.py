"""Rewards in the shapes of other packages, and theirs in ours; one module per package.

`as_...` turns a reward of ours into what the package calls; `from_...` turns that into a reward of ours. No
adapter makes a number where there is none: each says what stands for "not judged" in its package.
"""
