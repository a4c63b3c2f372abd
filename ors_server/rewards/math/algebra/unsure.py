"""What a judge of trees raises where it cannot say."""


class UnsureError(Exception):
    """There is no value, or none that can be trusted; another judge may know."""
