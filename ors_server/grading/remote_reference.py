"""The trusted process's knowledge of an object of the agent's, the link to it, and why a test is stopped."""

from typing import Any, NoReturn, Protocol


class StoppedError(BaseException):
    """The test cannot continue, even if it catches this; its case is failed."""


class AgentLostError(StoppedError):
    """The agent's code ended, hung or wrote nonsense."""


class RefusedError(StoppedError):
    """The test was about to let an object of the agent's decide about a value of the test's."""


class AgentLink(Protocol):
    """The link through which mirrors reach the agent's code."""

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
        """Record that the test failed for good, and raise."""
        ...


class RemoteReference:
    """The trusted side's knowledge of the object that a mirror represents."""

    def __init__(self, link: AgentLink) -> None:
        self.link = link
        self.generation = 0
        """Number of the worker that the handle belongs to."""
        self.number: int | None = None
        """The handle."""
        self.path: tuple[str, ...] = ()
        """Module, then attributes, if it was reached so: valid in every worker."""
        self.is_built = False
        """Whether a test made it, by calling a class that its author named."""
        self.plain: list[Any] = []
        """Its plain value, if its class derives from an immutable plain type."""
        self.guarded = ""
        """Its name, if it is a method that plain values have too, of an object that no test built."""
        self.steps = 0
