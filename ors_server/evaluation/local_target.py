"""Environments that are evaluated in this process."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from ors_server._version import __version__
from ors_server.app import InProcess, open_in_process
from ors_server.authoring.definition import EnvironmentDefinition
from ors_server.authoring.loading import define, load_environments
from ors_server.client.async_client import AsyncClient
from ors_server.clock import Clock
from ors_server.errors import UnknownEnvironmentError
from ors_server.evaluation.targets import Target
from ors_server.sandboxes.choose import BackendRequest
from ors_server.sessions.quotas import SessionLimits
from ors_server.sessions.sandboxing import Sandboxes
from ors_server.sessions.session_services import SessionOptions
from ors_server.store.base import EpisodeStore

IDLE_SECONDS = 7 * 24 * 3600.0
"""Seconds after which a session without calls expires: a model may think for long, and a run ends its own."""


@asynccontextmanager
async def open_local_target(
    environment: type | str | EnvironmentDefinition,
    *,
    name: str | None = None,
    store: EpisodeStore | None = None,
    clock: Clock | None = None,
    sandbox: BackendRequest | Sandboxes | None = None,
) -> AsyncGenerator[Target]:
    """Run an environment in this process to be evaluated; leaving the context ends all sessions.

    Args:
        environment: A class, a reference as for the command line, or a definition.
        name: What whoever starts the run calls it; the reference, or the environment's name, by default.
        store: Where episodes are recorded, and closed in the end; memory by default.
        clock: The source of time.
        sandbox: Which isolation is wanted for what agents run, or one that is prepared already and not closed
            here; the strongest that works here by default.

    Raises:
        UnknownEnvironmentError: If a reference leads nowhere, or to several environments.
        EnvironmentDefinitionError: If the environment breaks a rule.
        SandboxUnavailableError: If the isolation that was asked for does not work here.
    """
    definition = choose_definition(environment)
    options = SessionOptions(limits=SessionLimits(idle_seconds=IDLE_SECONDS), server_version=__version__)
    called = environment if isinstance(environment, str) else definition.name
    async with (
        open_in_process([definition], InProcess(options, sandbox), clock=clock, store=store) as app,
        app.client() as client,
    ):
        yield local_target(client, definition, name or called, gives_urls=False)


def local_target(
    client: AsyncClient, definition: EnvironmentDefinition, name: str, *, gives_urls: bool
) -> Target:
    """Make a target of an environment that runs in this process.

    Args:
        client: Calls the application that runs it.
        definition: The environment.
        name: What whoever starts the run calls it.
        gives_urls: Whether programs can reach the URLs of episodes.
    """
    own = {"ors-server": __version__, "environment": definition.version}
    return Target(
        name,
        definition.name,
        client,
        versions={**definition.packages, **own},
        step_limit=definition.policy.step_limit,
        source=definition,
        gives_urls=gives_urls,
    )


def choose_definition(
    environment: type | str | EnvironmentDefinition, name: str | None = None
) -> EnvironmentDefinition:
    """Define the one environment that is meant.

    Args:
        environment: A class, a reference, or a definition.
        name: Which one of those that a reference leads to; not needed where it leads to one.

    Raises:
        UnknownEnvironmentError: If there is none of that name, or several and no name.
        EnvironmentDefinitionError: If it breaks a rule.
    """
    if isinstance(environment, EnvironmentDefinition):
        return environment
    found = load_environments([environment]) if isinstance(environment, str) else [define(environment)]
    wanted = [one for one in found if name is None or one.name == name.lower()]
    if len(wanted) == 1:
        return wanted[0]
    names = ", ".join(one.name for one in found)
    raise UnknownEnvironmentError(f"{environment} leads to {names}; name one of them with --environment")
