"""Parts of an environment that fail whatever is asked of them, as where a machine was lost."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ors_server.authoring.definition import EnvironmentDefinition, Instance
from ors_server.authoring.environment import Environment, give_sandbox
from ors_server.resources.resource_errors import ResourceClosedError
from ors_server.sandboxes.sandbox_errors import SandboxClosedError
from ors_server.workers import LingeringThread

_ASKED_OF_SANDBOX = frozenset(
    {"exec", "read_file", "write_file", "remove_file", "list_files", "start_fresh", "run_fresh", "restart"}
)
_KEPT_OF_RESOURCE = frozenset(
    {"start", "end", "close", "reset", "get_status", "is_healthy", "memory_used", "resource_id", "category"}
)
_WHY = "a fault that the audit injected"
GARBAGE = "\x00 garbage, a fault that the audit injected"


def _raise(error: Exception) -> Any:
    raise error


FAULTS: Mapping[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "lost": (
        lambda: _raise(SandboxClosedError(f"the sandbox was lost ({_WHY})")),
        lambda: _raise(ResourceClosedError(f"the resource was lost ({_WHY})")),
    ),
    "too slow": (
        lambda: _raise(TimeoutError(f"no answer in time ({_WHY})")),
        lambda: _raise(TimeoutError(f"no answer in time ({_WHY})")),
    ),
    "garbled": (
        lambda: _raise(SandboxClosedError(f"the sandbox was lost ({_WHY})")),
        lambda: GARBAGE,
    ),
}
"""What a sandbox and what a resource do instead of an answer, by the name of the fault."""


@dataclass
class InjectedFault:
    """A fault that is injected into sessions."""

    kind: str
    """A key of `FAULTS`."""
    asked: int = 0
    """How often something was asked of a broken part."""


@dataclass
class BrokenPart:
    """Is before a sandbox or a resource; once it is broken, only what ends it still works."""

    _real: Any
    _fault: InjectedFault
    _is_sandbox: bool
    _is_broken: bool = False

    def break_down(self) -> None:
        """Fail from now on."""
        self._is_broken = True

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._real, name)
        asked = name in _ASKED_OF_SANDBOX if self._is_sandbox else name not in _KEPT_OF_RESOURCE
        if not (self._is_broken and asked and callable(found)):
            return found

        async def fail(*_: Any, **__: Any) -> Any:
            self._fault.asked += 1
            return FAULTS[self._fault.kind][0 if self._is_sandbox else 1]()

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

        async def acquire_broken(*given: Any, **options: Any) -> Any:
            part = BrokenPart(
                await acquire(*given, **options), fault, _is_sandbox=False, _is_broken=not parts_work
            )
            parts.append(part)
            return part

        parts_work = True
        context.acquire_resource = acquire_broken
        if setup is not None:
            await setup(instance, thread)
        parts_work = False
        for part in parts:
            part.break_down()
        if any(toolset.needs_sandbox for toolset in definition.toolsets):
            broken: Any = BrokenPart(instance.sandbox, fault, _is_sandbox=True, _is_broken=True)
            give_sandbox(instance, broken)

    return replace(definition, hooks=replace(hooks, setup=break_after))
