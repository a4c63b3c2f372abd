"""How a check states that a requirement is not met, or cannot be judged."""


class NotMetError(Exception):
    """The requirement is not met; the message is what was expected and what was received."""


class NotApplicableError(Exception):
    """The requirement cannot be judged here; the message is why."""


def expect(condition: object, message: str) -> None:
    """Raise `NotMetError` with the message if the condition is false."""
    if not condition:
        raise NotMetError(message)
