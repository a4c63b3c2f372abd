"""A sandbox that fails whatever is asked of it, as one whose machine was lost."""

from dataclasses import replace
from typing import Any

from ors_server.authoring.definition import EnvironmentDefinition, Instance
from ors_server.authoring.environment import Environment, give_sandbox
from ors_server.sandboxes.sandbox_errors import SandboxClosedError
from ors_server.workers import LingeringThread

_ASKED = frozenset(
    {"exec", "read_file", "write_file", "remove_file", "list_files", "start_fresh", "run_fresh", "restart"}
)


class BrokenSandbox:
    """Is before a real sandbox from the end of setup on; only what ends it still works."""

    def __init__(self, real: Any) -> None:
        """Break a sandbox."""
        self._real = real

    def __getattr__(self, name: str) -> Any:
        if name not in _ASKED:
            return getattr(self._real, name)

        async def fail(*_: Any, **__: Any) -> Any:
            raise SandboxClosedError("the sandbox was lost (a fault that the audit injected)")

        return fail


def with_broken_sandbox(definition: EnvironmentDefinition) -> EnvironmentDefinition:
    """Return an environment whose sandbox breaks after setup."""
    hooks = definition.hooks
    setup = hooks.setup

    async def break_after(instance: Instance, thread: LingeringThread) -> None:
        if setup is not None:
            await setup(instance, thread)
        if isinstance(instance, Environment):
            broken: Any = BrokenSandbox(instance.sandbox)
            give_sandbox(instance, broken)

    return replace(definition, hooks=replace(hooks, setup=break_after))
