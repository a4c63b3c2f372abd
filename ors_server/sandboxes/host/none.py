"""The backend without isolation: for trusted tasks on one's own machine, and only if selected."""

from types import MappingProxyType

from typing_extensions import override

from ors_server.model.clock import Clock
from ors_server.sandboxes.base import Limits
from ors_server.sandboxes.cells.cell import Cell
from ors_server.sandboxes.cells.server_state import ServerState
from ors_server.sandboxes.host.landlock import LandlockCell
from ors_server.sandboxes.hosted import HostedBackend
from ors_server.sandboxes.isolation_report import IsolationReport, Strength
from ors_server.sandboxes.sandbox_errors import UnsandboxedRefusedError


class NoneBackend(HostedBackend):
    """Commands run with the rights of the server, or of their own uid if it is root."""

    name = "none"

    def __init__(self, state: ServerState, clock: Clock | None = None, *, allowed: bool = False) -> None:
        """Refuse unless the operator allows it; `UnsandboxedRefusedError` if the operator does not."""
        if not allowed:
            raise UnsandboxedRefusedError(
                "without a sandbox an agent's commands run with the server's rights; "
                "pass --allow-unsandboxed if that is what you want"
            )
        super().__init__(state, clock)

    @override
    def make_cell(self, limits: Limits) -> Cell:
        """Make a session's cell, with those limits that apply to single processes."""
        return LandlockCell(self.state, limits, confined=False)

    @override
    def check_host(self) -> None:
        """Do nothing: nothing is needed."""

    @override
    def describe(self) -> IsolationReport:
        """Return a report that claims nothing."""
        gaps = ("Nothing is isolated: commands can do everything that the server can.",)
        return IsolationReport(self.name, Strength.NONE, MappingProxyType({}), gaps, loopback=True)
