"""The backend that isolates nothing: for trusted tasks on a machine of one's own, and only when asked for."""

from types import MappingProxyType

from typing_extensions import override

from ors_server.clock import Clock
from ors_server.sandboxes.base import Limits
from ors_server.sandboxes.cell import Cell
from ors_server.sandboxes.errors import UnsandboxedRefusedError
from ors_server.sandboxes.hosted import HostedBackend
from ors_server.sandboxes.landlock import LandlockCell
from ors_server.sandboxes.state import ServerState
from ors_server.sandboxes.tier import Strength, TierReport


class NoneBackend(HostedBackend):
    """Commands run with the rights of the server, or of a uid of their own where it is root."""

    name = "none"

    def __init__(self, state: ServerState, clock: Clock | None = None, *, allowed: bool = False) -> None:
        """Refuse, unless somebody said yes.

        Args:
            state: The server's folder.
            clock: The source of time.
            allowed: Whether the operator accepts that nothing is isolated.

        Raises:
            UnsandboxedRefusedError: Nobody did.
        """
        if not allowed:
            raise UnsandboxedRefusedError(
                "without a sandbox an agent's commands run with the server's rights; "
                "pass --allow-unsandboxed if that is what you want"
            )
        super().__init__(state, clock)

    @override
    def make_cell(self, limits: Limits) -> Cell:
        """Make a session's folder.

        Args:
            limits: What the session may use, as far as limits per process go.
        """
        return LandlockCell(self.state, limits, confined=False)

    @override
    def check_host(self) -> None:
        """Nothing is needed."""

    @override
    def describe(self) -> TierReport:
        """Tell that nothing is held."""
        gaps = ("Nothing is isolated: commands reach whatever the server reaches.",)
        return TierReport(self.name, Strength.NONE, MappingProxyType({}), gaps, loopback=True)
