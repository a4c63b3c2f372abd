"""Which backend is in force: the strongest that passes its own probe, or the one that was asked for."""

import contextlib
import resource
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ors_server.clock import Clock
from ors_server.sandboxes.base import Backend
from ors_server.sandboxes.bubblewrap import BubblewrapBackend
from ors_server.sandboxes.docker import DockerBackend
from ors_server.sandboxes.errors import SandboxUnavailableError
from ors_server.sandboxes.janitor import sweep
from ors_server.sandboxes.landlock import LandlockBackend
from ors_server.sandboxes.masks import Hidden, find_visible
from ors_server.sandboxes.none import NoneBackend
from ors_server.sandboxes.state import ServerState
from ors_server.sandboxes.tier import Strength, TierReport


class Choice(StrEnum):
    """What an operator may ask for."""

    AUTO = "auto"
    BUBBLEWRAP = "bubblewrap"
    DOCKER = "docker"
    LANDLOCK = "landlock"
    NONE = "none"


@dataclass(frozen=True)
class Wanted:
    """What the operator asked for."""

    choice: Choice = Choice.AUTO
    allow_unsandboxed: bool = False
    """Accept that nothing is isolated, when nothing better is to be had or nothing else was asked for."""
    at_least: Strength = Strength.PARTIAL
    """Refuse to start on less."""
    docker_image: str | None = None
    """The image of sessions' containers; without one Docker is not tried unless it is asked for by name."""
    docker_host: str | None = None
    """Where the Docker engine listens; as in `DOCKER_HOST` by default."""
    hidden: Hidden = field(default_factory=Hidden)
    """What agents must not read."""
    allow_visible_answers: bool = False
    """Accept a backend in which agents can read it."""


@dataclass
class Chosen:
    """The backend in force, and why it is not a stronger one."""

    backend: Backend
    report: TierReport
    refused: Mapping[str, str]
    """Stronger backends that were tried, to what they said."""
    state: ServerState

    async def aclose(self) -> None:
        """Close every sandbox and remove the server's folder."""
        try:
            await self.backend.aclose()
        finally:
            self.state.close()


async def choose(wanted: Wanted | None = None, clock: Clock | None = None) -> Chosen:
    """Clean up after dead servers, then probe the backends from the strongest down.

    Args:
        wanted: What the operator asked for.
        clock: The source of time.

    Raises:
        SandboxUnavailableError: Nothing that was asked for works here; the message says what each one lacked.
        UnsandboxedRefusedError: Only `none` was asked for, and it was not allowed.
    """
    wanted = wanted or Wanted()
    sweep()
    _raise_descriptor_limit()
    state = ServerState()
    state.hidden = wanted.hidden
    try:
        return await _choose(wanted, state, clock)
    except BaseException:
        state.close()
        raise


def _raise_descriptor_limit() -> None:
    """Use what the operator's hard limit allows: a live sandbox holds six descriptors of the server's."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        if soft != hard:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def _choose(wanted: Wanted, state: ServerState, clock: Clock | None) -> Chosen:
    refused: dict[str, str] = {}
    for name, make in _candidates(wanted, state, clock):
        backend = make()
        try:
            report = await backend.probe()
            await _require_hidden(backend, wanted)
        except SandboxUnavailableError as error:
            refused[name] = str(error)
            await backend.aclose()
            continue
        if report.strength >= wanted.at_least or report.strength is Strength.NONE:
            return Chosen(backend, report, refused, state)
        refused[name] = f"holds less (level {report.strength}) than was asked for (level {wanted.at_least})"
        await backend.aclose()
    tried = "; ".join(f"{name}: {reason}" for name, reason in refused.items())
    raise SandboxUnavailableError(f"no sandbox works here. {tried}. To run without one: --allow-unsandboxed")


async def _require_hidden(backend: Backend, wanted: Wanted) -> None:
    """Look from within whether the hidden places can be read.

    Raises:
        SandboxUnavailableError: They can, and nobody allowed that.
    """
    if not wanted.hidden.places or wanted.allow_visible_answers:
        return
    sandbox = await backend.start("probe-answers")
    try:
        found = await find_visible(sandbox, wanted.hidden)
    finally:
        await sandbox.aclose()
    if found is not None:
        raise SandboxUnavailableError(
            f"agents could read {found}, and with it the answers of an environment: install that where they "
            "cannot, in a folder of your own, or take another isolation; --allow-visible-answers accepts it"
        )


def _candidates(
    wanted: Wanted, state: ServerState, clock: Clock | None
) -> list[tuple[Choice, Callable[[], Backend]]]:
    """Return what to try, the strongest first."""
    image, host = wanted.docker_image, wanted.docker_host
    everything: list[tuple[Choice, Callable[[], Backend]]] = [
        (Choice.BUBBLEWRAP, lambda: BubblewrapBackend(state, clock)),
        (Choice.DOCKER, lambda: DockerBackend(state, clock, image=image, host=host)),
        (Choice.LANDLOCK, lambda: LandlockBackend(state, clock)),
        (Choice.NONE, lambda: NoneBackend(state, clock, allowed=wanted.allow_unsandboxed)),
    ]
    if wanted.choice is not Choice.AUTO:
        return [candidate for candidate in everything if candidate[0] is wanted.choice]
    left_out = set[Choice]()
    if not wanted.allow_unsandboxed:
        left_out.add(Choice.NONE)
    if image is None:
        left_out.add(Choice.DOCKER)
    return [candidate for candidate in everything if candidate[0] not in left_out]
