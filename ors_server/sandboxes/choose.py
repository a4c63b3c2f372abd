"""Chooses the backend: the strongest that passes its own probe, or the one that the operator selected."""

import contextlib
import resource
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from ors_server.model.clock import Clock
from ors_server.sandboxes.base import Backend, ImageTree
from ors_server.sandboxes.cells.hidden_paths import HiddenPaths, find_visible
from ors_server.sandboxes.cells.server_state import ServerState
from ors_server.sandboxes.cleanup import clean_up
from ors_server.sandboxes.docker.backend import DockerBackend
from ors_server.sandboxes.host.bubblewrap import BubblewrapBackend
from ors_server.sandboxes.host.landlock import LandlockBackend
from ors_server.sandboxes.host.none import NoneBackend
from ors_server.sandboxes.hosted import HostedBackend
from ors_server.sandboxes.isolation_report import IsolationReport, Strength
from ors_server.sandboxes.sandbox_errors import SandboxUnavailableError


class BackendChoice(StrEnum):
    """The backends that an operator may select."""

    AUTO = "auto"
    BUBBLEWRAP = "bubblewrap"
    DOCKER = "docker"
    LANDLOCK = "landlock"
    NONE = "none"


@dataclass(frozen=True)
class BackendRequest:
    """The operator's requirements of the backend."""

    choice: BackendChoice = BackendChoice.AUTO
    allow_unsandboxed: bool = False
    """Accept no isolation, if nothing better works or `none` was selected."""
    at_least: Strength = Strength.PARTIAL
    """Refuse to start with less."""
    docker_image: str | None = None
    """The image of sessions' containers; without one Docker is tried only if selected by name."""
    docker_host: str | None = None
    """URL of the Docker engine; by default that of `DOCKER_HOST`."""
    hidden: HiddenPaths = field(default_factory=HiddenPaths)
    """Paths that agents must not read."""
    image: ImageTree | None = None
    """An image with which the chosen backend is tried; without one the report is silent on images."""
    allow_network: bool = False
    """Allow sessions to connect to the hosts of their environments' allow-lists."""
    allow_visible_answers: bool = False
    """Accept a backend in which agents can read hidden files."""


@dataclass
class ChosenBackend:
    """The chosen backend, and why it is not a stronger one."""

    backend: Backend
    report: IsolationReport
    refused: Mapping[str, str]
    """Stronger backends that were tried, and why each was not chosen."""
    state: ServerState

    async def aclose(self) -> None:
        """Close every sandbox and remove the server's folder."""
        try:
            await self.backend.aclose()
        finally:
            self.state.close()


async def choose(request: BackendRequest | None = None, clock: Clock | None = None) -> ChosenBackend:
    """Clean up after dead servers, then probe the backends from the strongest down.

    Raises:
        SandboxUnavailableError: No permitted backend works here; the message says what each one lacks.
        UnsandboxedRefusedError: Only `none` was selected, and it is not allowed.
    """
    request = request or BackendRequest()
    clean_up()
    # A live sandbox takes six of the server's descriptors: use all that the hard limit allows.
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        if soft != hard:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    state = ServerState()
    state.hidden = request.hidden
    try:
        return await _choose(request, state, clock)
    except BaseException:
        state.close()
        raise


async def _choose(request: BackendRequest, state: ServerState, clock: Clock | None) -> ChosenBackend:
    refused: dict[str, str] = {}
    for name, make in _candidates(request, state, clock):
        backend = make()
        try:
            if isinstance(backend, HostedBackend):
                backend.allows_network = request.allow_network
            report = await backend.probe()
            await _require_hidden(backend, request)
        except SandboxUnavailableError as error:
            refused[name] = str(error)
            await backend.aclose()
            continue
        if report.strength >= request.at_least or report.strength is Strength.NONE:
            return ChosenBackend(backend, await _with_images(backend, report, request), refused, state)
        refused[name] = f"isolates less (level {report.strength}) than required (level {request.at_least})"
        await backend.aclose()
    tried = "; ".join(f"{name}: {reason}" for name, reason in refused.items())
    raise SandboxUnavailableError(f"no sandbox works here. {tried}. To run without one: --allow-unsandboxed")


async def _with_images(backend: Backend, report: IsolationReport, request: BackendRequest) -> IsolationReport:
    """Return the report with whether images can be roots; that they cannot refuses no backend."""
    if request.image is None:
        return report
    try:
        return replace(report, images=await backend.try_image(request.image))
    except SandboxUnavailableError as error:
        return replace(report, images_refused=str(error))


async def _require_hidden(backend: Backend, request: BackendRequest) -> None:
    """Check from inside a sandbox that hidden files cannot be read, unless the operator allows it."""
    if not request.hidden.places or request.allow_visible_answers:
        return
    sandbox = await backend.start("probe-answers")
    try:
        visible = await find_visible(sandbox, request.hidden)
    finally:
        await sandbox.aclose()
    if visible is not None:
        raise SandboxUnavailableError(
            f"agents could read {visible}, and with it the answers of an environment: install that where "
            "they cannot, such as a folder in your home, or choose another isolation; "
            "--allow-visible-answers accepts it"
        )


def _candidates(
    request: BackendRequest, state: ServerState, clock: Clock | None
) -> list[tuple[BackendChoice, Callable[[], Backend]]]:
    """Return what to try, the strongest first."""
    image, host = request.docker_image, request.docker_host
    everything: list[tuple[BackendChoice, Callable[[], Backend]]] = [
        (BackendChoice.BUBBLEWRAP, lambda: BubblewrapBackend(state, clock)),
        (BackendChoice.DOCKER, lambda: DockerBackend(state, clock, image=image, host=host)),
        (BackendChoice.LANDLOCK, lambda: LandlockBackend(state, clock)),
        (BackendChoice.NONE, lambda: NoneBackend(state, clock, allowed=request.allow_unsandboxed)),
    ]
    if request.choice is not BackendChoice.AUTO:
        return [candidate for candidate in everything if candidate[0] is request.choice]
    left_out = set[BackendChoice]()
    if not request.allow_unsandboxed:
        left_out.add(BackendChoice.NONE)
    if image is None:
        left_out.add(BackendChoice.DOCKER)
    return [candidate for candidate in everything if candidate[0] not in left_out]
