"""The audit: what does an environment pay for that it should not?"""
