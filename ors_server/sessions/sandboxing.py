"""Where sessions get their sandboxes: the backend in force, or the reason why there is none."""

import sys
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from ors_server.authoring.definition import EnvironmentDefinition
from ors_server.clock import Clock
from ors_server.logs import get_logger
from ors_server.sandboxes.base import Backend
from ors_server.sandboxes.choose import BackendChoice, BackendRequest, choose
from ors_server.sandboxes.hidden_paths import HiddenPaths, source_places
from ors_server.sandboxes.isolation_report import IsolationReport
from ors_server.sandboxes.sandbox_errors import SandboxUnavailableError
from ors_server.wire import JSONObject

log = get_logger("ors_server.sandboxes")


@dataclass(frozen=True, slots=True)
class Sandboxes:
    """What a server has to offer."""

    backend: Backend | None = None
    report: IsolationReport | None = None
    """What the backend isolates, and what it does not."""
    refusal: str = "no environment of this server needs a sandbox, so none was prepared"
    """Why there is no backend."""

    @property
    def tier(self) -> JSONObject | None:
        """The report as JSON, as it is recorded with every episode."""
        return None if self.report is None else self.report.as_dict()

    def require(self) -> Backend:
        """Return the backend; raises `SandboxUnavailableError` if there is none."""
        if self.backend is None:
            raise SandboxUnavailableError(self.refusal)
        return self.backend


NO_SANDBOXES = Sandboxes()


def _sources_of(definitions: Iterable[EnvironmentDefinition]) -> HiddenPaths:
    """Return the files of the environments' own source, with the packages that it belongs to."""
    places: list[Path] = []
    names: list[str] = []
    for definition in definitions:
        name = definition.source.__module__
        package = sys.modules.get(name.partition(".")[0])
        module = sys.modules.get(name)
        file = getattr(module, "__file__", None)
        if file is not None:
            places += source_places(file, list(getattr(package, "__path__", ())))
            names.append(name.partition(".")[0])
        places += getattr(definition.source, "hidden_files", ())
    return HiddenPaths(tuple(dict.fromkeys(places)), tuple(dict.fromkeys(names)), tuple(_own_folders()))


def _own_folders() -> Iterable[Path]:
    """Yield the folders of this server and of the bundled environments, served or not."""
    for name in ("ors_server", "ors_server_tasks"):
        found = find_spec(name)
        yield from map(Path.resolve, map(Path, (found and found.submodule_search_locations) or ()))


@asynccontextmanager
async def open_sandboxes(
    definitions: Iterable[EnvironmentDefinition],
    request: BackendRequest | None = None,
    clock: Clock | None = None,
) -> AsyncGenerator[Sandboxes]:
    """Choose and prepare a backend if an environment may need one; leaving the context closes every sandbox.

    A backend that is named in the settings must work. Where the server may choose and nothing works here, it
    starts nevertheless: the environments that need no sandbox can be played, the others say why not.

    Raises:
        SandboxUnavailableError: If the named backend does not work here.
        UnsandboxedRefusedError: If it is `none` and that was not allowed.
    """
    played = [definition for definition in definitions if definition.may_need_sandbox]
    needing = [definition.name for definition in played]
    request = replace(request or BackendRequest(), hidden=_sources_of(played))
    if not needing:
        yield NO_SANDBOXES
        return
    try:
        chosen = await choose(request, clock)
    except SandboxUnavailableError as error:
        if request.choice is not BackendChoice.AUTO:
            raise
        log.warning("no_sandbox", environments=needing, reason=str(error))
        yield Sandboxes(refusal=str(error))
        return
    log.info("sandbox", backend=chosen.report.backend, isolation=int(chosen.report.strength))
    log.debug("sandbox_report", **chosen.report.as_dict(), refused=dict(chosen.refused))
    try:
        yield Sandboxes(chosen.backend, chosen.report)
    finally:
        await chosen.aclose()
