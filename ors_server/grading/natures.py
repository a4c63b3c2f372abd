"""What is known of the agent's things in the trusted process, whom mirrors ask, and why a test is stopped."""

from typing import Any, NoReturn, Protocol


class StoppedError(BaseException):
    """The test cannot go on, whatever it catches; its case is failed."""


class AgentLostError(StoppedError):
    """The agent's code ended, hung or wrote nonsense."""


class RefusedError(StoppedError):
    """The test was about to let an object of the agent's decide on a value of the test's."""


class Link(Protocol):
    """What mirrors ask."""

    def get(self, mirror: Any, name: str) -> Any:
        """Return an attribute."""
        ...

    def set(self, mirror: Any, name: str, value: Any) -> None:
        """Set an attribute."""
        ...

    def delete(self, mirror: Any, name: str) -> None:
        """Delete an attribute."""
        ...

    def call(self, mirror: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Call."""
        ...

    def operate(self, name: str, *operands: Any) -> Any:
        """Apply an operator."""
        ...

    def stop(self, error: StoppedError) -> NoReturn:
        """Take note that the test failed for good, and raise."""
        ...


class Nature:
    """What is known of the thing that a mirror stands for."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.generation = 0
        """Of the worker that the handle belongs to."""
        self.number: int | None = None
        """The handle."""
        self.path: tuple[str, ...] = ()
        """Module, then attributes, where it was reached so: good in every worker."""
        self.is_built = False
        """Whether a test made it, by calling a class that its author named."""
        self.plain: list[Any] = []
        """The plain value that it is beside being an object of a class, if it is one that never changes."""
        self.guarded = ""
        """Its name, if it is a method that plain values have too, of an object that no test built."""
        self.steps = 0
