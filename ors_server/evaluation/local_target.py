"""Targets in this process."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from ors_server._version import __version__
from ors_server.app import InProcess, open_in_process
from ors_server.client.async_client import AsyncClient
from ors_server.environments.definition import EnvironmentDefinition
from ors_server.environments.loading import definitions_of
from ors_server.evaluation.targets import Target
from ors_server.model.clock import Clock
from ors_server.model.errors import UnknownEnvironmentError
from ors_server.sandboxes.choose import BackendRequest
from ors_server.sessions.session_request import SessionLimits
from ors_server.sessions.session_services import Sandboxes, SessionOptions
from ors_server.store.base import EpisodeStore

IDLE_SECONDS = 7 * 24 * 3600.0
"""Seconds without calls after which a session expires: long, because a model may take long, and a run deletes
its own sessions."""


@asynccontextmanager
async def open_local_target(
    environment: type | str | EnvironmentDefinition,
    *,
    name: str | None = None,
    store: EpisodeStore | None = None,
    clock: Clock | None = None,
    sandbox: BackendRequest | Sandboxes | None = None,
) -> AsyncGenerator[Target]:
    """Run an environment in this process to evaluate it; leaving the context ends all sessions.

    Args:
        environment: A class, a reference as for the command line, or a definition.
        name: The target's name in the run; the reference, or the environment's name, by default.
        store: Where episodes are recorded; closed at the end. Memory by default.
        sandbox: The requested isolation for what agents run, or an open backend, which is not closed here; by
            default the strongest isolation that works here.

    Raises:
        UnknownEnvironmentError: If a reference leads to no environment, or to several.
        EnvironmentDefinitionError: If the environment breaks a rule.
        SandboxUnavailableError: If the requested isolation does not work here.
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
    """Return the target for an environment that `client` calls in this process."""
    own = {"ors-server": __version__, "environment": definition.version}
    return Target(
        name,
        definition.name,
        client,
        versions={**definition.packages, **own},
        step_limit=definition.policy.step_limit,
        definition=definition,
        gives_urls=gives_urls,
    )


def choose_definition(
    environment: type | str | EnvironmentDefinition, name: str | None = None
) -> EnvironmentDefinition:
    """Return the definition of one environment.

    Args:
        environment: A class, a reference, or a definition.
        name: Its name, where a reference leads to several.

    Raises:
        UnknownEnvironmentError: If none has the name, or there are several and no name.
        EnvironmentDefinitionError: If it breaks a rule.
    """
    definitions = definitions_of(environment)
    chosen = [definition for definition in definitions if name is None or definition.name == name.lower()]
    if len(chosen) == 1:
        return chosen[0]
    names = ", ".join(definition.name for definition in definitions)
    raise UnknownEnvironmentError(f"{environment} leads to {names}; name one of them with --environment")
