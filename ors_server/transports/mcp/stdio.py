"""The door over standard input and output: one episode, or the lobby, for one client."""

from collections.abc import Mapping

from ors_server._version import __version__
from ors_server.errors import InvalidRequestError
from ors_server.sessions.manager import SessionManager
from ors_server.sessions.session_request import SessionRequest
from ors_server.transports.access import Caller, Keyring, Role
from ors_server.transports.mcp.door import McpDoor
from ors_server.transports.mcp.ground import Ground, Visitor
from ors_server.transports.mcp.sdk import stdio_server

EPISODE_VARIABLE = "ORS_EPISODE"
"""Environment variable that chooses the episode where no argument does."""


def chosen_episode(argument: str | None, environ: Mapping[str, str]) -> SessionRequest | None:
    """Read which episode is to be served.

    Args:
        argument: `environment/split/index`, for instance `math_word_problems/test/3`; wins over the variable.
        environ: The process's environment.

    Returns:
        What session to make, or `None` for the lobby.

    Raises:
        InvalidRequestError: If the text has another form.
    """
    text = argument or environ.get(EPISODE_VARIABLE)
    if not text:
        return None
    match text.split("/"):
        case [environment, split, index] if environment and split and index.isdecimal():
            return SessionRequest(environment=environment, split=split, index=int(index))
        case _:
            raise InvalidRequestError(f"an episode is chosen as environment/split/index, not {text!r}")


async def serve_stdio(engine: SessionManager, keyring: Keyring, order: SessionRequest | None) -> None:
    """Serve one client until it closes its side.

    Whatever else the process prints goes to standard error meanwhile. Who may start a process needs no
    credential: at one episode the client is that episode's agent, in the lobby it is a trainer.

    Args:
        engine: Where sessions live; it outlives this call.
        keyring: Mints agent tokens.
        order: The episode to play; `None` opens the lobby.

    Raises:
        ClientError: If the episode cannot be made.
    """
    async with stdio_server() as (incoming, outgoing):
        visitor = Visitor(Caller(Role.TRAINER))
        if order is not None:
            origin = (await engine.create(order)).origin
            session_id = origin.session_id
            agent = Caller(Role.AGENT, f"agent:{session_id}", session_id, origin.episode_id)
            visitor = Visitor(agent, session_id)
        door = McpDoor(Ground(engine, keyring, visitor), version=__version__)
        async with door.running():
            await door.server.run(incoming, outgoing, door.server.create_initialization_options())
