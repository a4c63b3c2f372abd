"""The base class of toolsets that work in the session's sandbox."""

from typing import ClassVar

from typing_extensions import override

from ors_server.environments.tool import Toolset
from ors_server.environments.toolsets.milestones import check_milestones
from ors_server.sandboxes.base import Sandbox


class SandboxToolset(Toolset):
    """Tools in a sandbox, whose calls pay milestones."""

    needs_sandbox: ClassVar[bool] = True

    @override
    @classmethod
    def check_environment(cls, environment: type) -> None:
        check_milestones(environment)

    @property
    def sandbox(self) -> Sandbox:
        """The session's sandbox."""
        sandbox: Sandbox = self.environment.sandbox
        return sandbox
