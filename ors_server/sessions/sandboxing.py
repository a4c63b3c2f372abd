"""Where sessions get their sandboxes: the backend in force, or the reason why there is none."""

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from ors_server.authoring.definition import EnvironmentDefinition
from ors_server.clock import Clock
from ors_server.logs import get_logger
from ors_server.sandboxes.base import Backend
from ors_server.sandboxes.choose import Choice, Wanted, choose
from ors_server.sandboxes.errors import SandboxUnavailableError
from ors_server.sandboxes.tier import TierReport
from ors_server.wire import JSONObject

log = get_logger("ors_server.sandboxes")


@dataclass(frozen=True, slots=True)
class Sandboxes:
    """What a server has to offer."""

    backend: Backend | None = None
    report: TierReport | None = None
    """What the backend isolates, and what it does not."""
    refusal: str = "no environment of this server needs a sandbox, so none was prepared"
    """Why there is no backend."""

    @property
    def tier(self) -> JSONObject | None:
        """The report as JSON, as it is recorded with every episode."""
        return None if self.report is None else self.report.as_dict()

    def require(self) -> Backend:
        """Return the backend.

        Raises:
            SandboxUnavailableError: If there is none.
        """
        if self.backend is None:
            raise SandboxUnavailableError(self.refusal)
        return self.backend


NO_SANDBOXES = Sandboxes()


@asynccontextmanager
async def open_sandboxes(
    definitions: Iterable[EnvironmentDefinition], wanted: Wanted | None = None, clock: Clock | None = None
) -> AsyncGenerator[Sandboxes]:
    """Choose and prepare a backend if an environment may need one; leaving the context closes every sandbox.

    A backend that was asked for by name must work. Where the server may choose and nothing works here, it
    starts nevertheless: the environments that need no sandbox can be played, the others say why not.

    Args:
        definitions: The environments.
        wanted: What the operator asked for.
        clock: The source of time.

    Raises:
        SandboxUnavailableError: If the backend that was asked for does not work here.
        UnsandboxedRefusedError: If it is `none`, and nobody allowed that.
    """
    wanted = wanted or Wanted()
    needing = [definition.name for definition in definitions if definition.may_need_sandbox]
    if not needing:
        yield NO_SANDBOXES
        return
    try:
        chosen = await choose(wanted, clock)
    except SandboxUnavailableError as error:
        if wanted.choice is not Choice.AUTO:
            raise
        log.warning("no_sandbox", environments=needing, reason=str(error))
        yield Sandboxes(refusal=str(error))
        return
    log.info("sandbox", **chosen.report.as_dict(), refused=dict(chosen.refused))
    try:
        yield Sandboxes(chosen.backend, chosen.report)
    finally:
        await chosen.aclose()
