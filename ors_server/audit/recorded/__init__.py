"""Audits of recorded episodes: what a policy under training really did."""
