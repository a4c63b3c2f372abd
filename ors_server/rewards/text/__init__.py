"""Rewards that compare texts, or pay for their form, length and overlap."""
