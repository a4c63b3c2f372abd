"""Parts of an environment that fail on every request, as if their machine was lost."""

from dataclasses import dataclass, replace
from typing import Any

from ors_server.environments.definition import EnvironmentDefinition, Instance
from ors_server.environments.environment import Environment, give_sandbox
from ors_server.resources.resource_errors import ResourceClosedError
from ors_server.sandboxes.sandbox_errors import SandboxClosedError
from ors_server.timing.workers import LingeringThread

_FAILING_OF_SANDBOX = frozenset(
    {"exec", "read_file", "write_file", "remove_file", "list_files", "start_fresh", "run_fresh", "restart"}
)
_KEPT_OF_RESOURCE = frozenset(
    {"start", "end", "close", "reset", "get_status", "is_healthy", "memory_used", "resource_id", "category"}
)
_WHY = "a fault that the audit injected"
GARBAGE = "\x00 garbage, a fault that the audit injected"
FAULTS = ("lost", "too slow", "garbled")
"""States in which a broken sandbox or resource may be."""


@dataclass
class InjectedFault:
    """A fault that is injected into sessions."""

    kind: str
    """One of `FAULTS`."""
    requests: int = 0
    """How many requests the broken parts received."""


@dataclass
class BrokenPart:
    """A proxy of a sandbox or a resource; once it is broken, only the methods that end it still work."""

    _real: Any
    _fault: InjectedFault
    _is_sandbox: bool
    _is_broken: bool = False

    def break_down(self) -> None:
        """Fail from now on."""
        self._is_broken = True

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._real, name)
        fails = name in _FAILING_OF_SANDBOX if self._is_sandbox else name not in _KEPT_OF_RESOURCE
        # The methods that end a part, and plain attributes, still work: the session must close in order, or
        # the audit would leave containers and processes.
        if not (self._is_broken and fails and callable(attribute)):
            return attribute

        async def fail(*_: Any, **__: Any) -> Any:
            self._fault.requests += 1
            kind = self._fault.kind
            if kind == "too slow":
                raise TimeoutError(f"no answer in time ({_WHY})")
            if self._is_sandbox:
                raise SandboxClosedError(f"the sandbox was lost ({_WHY})")
            if kind == "garbled":
                return GARBAGE
            raise ResourceClosedError(f"the resource was lost ({_WHY})")

        return fail


def with_broken_parts(definition: EnvironmentDefinition, fault: InjectedFault) -> EnvironmentDefinition:
    """Return an environment whose sandbox and resources break after setup."""
    hooks = definition.hooks
    setup = hooks.setup

    async def break_after(instance: Instance, thread: LingeringThread) -> None:
        if not isinstance(instance, Environment):
            if setup is not None:
                await setup(instance, thread)
            return
        parts: list[BrokenPart] = []
        context: Any = instance.context
        acquire = context.acquire_resource

        async def acquire_broken(*args: Any, **options: Any) -> Any:
            part = BrokenPart(
                await acquire(*args, **options), fault, _is_sandbox=False, _is_broken=not parts_work
            )
            parts.append(part)
            return part

        # What setup itself calls must work, or no episode would start: a part breaks when setup has ended,
        # and a part acquired later is broken at once.
        parts_work = True
        context.acquire_resource = acquire_broken
        if setup is not None:
            await setup(instance, thread)
        parts_work = False
        for part in parts:
            part.break_down()
        if any(toolset.needs_sandbox for toolset in definition.toolsets):
            # After setup, because setup itself writes files into the sandbox.
            broken: Any = BrokenPart(instance.sandbox, fault, _is_sandbox=True, _is_broken=True)
            give_sandbox(instance, broken)

    return replace(definition, hooks=replace(hooks, setup=break_after))
