"""MCP over standard input and output: one episode, or the lobby, for one client."""

from collections.abc import Mapping

from ors_server._version import __version__
from ors_server.doors.access import Caller, Keyring, Role
from ors_server.doors.mcp.mcp_server import McpServer
from ors_server.doors.mcp.session_access import Requester, SessionAccess
from ors_server.doors.mcp.stdio_lines import checked_stdio, taken_stdio
from ors_server.model.errors import InvalidRequestError
from ors_server.sessions.manager import SessionManager
from ors_server.sessions.session_request import SessionRequest

EPISODE_VARIABLE = "ORS_EPISODE"
"""Environment variable that chooses the episode where no argument does."""


def chosen_episode(argument: str | None, environ: Mapping[str, str]) -> SessionRequest | None:
    """Read which episode is to be served, as `environment/split/index`; `None` for the lobby.

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
            raise InvalidRequestError(
                f"expected an episode as environment/split/index, such as qa/test/3, got {text!r}"
            )


async def serve_stdio(sessions: SessionManager, keyring: Keyring, episode: SessionRequest | None) -> None:
    """Serve one client until it closes its side.

    Meanwhile everything else that the process prints goes to standard error. The user who starts the process
    needs no credential: in one episode the client is that episode's agent, in the lobby it is a trainer.

    Raises:
        ClientError: If the episode cannot be created; the client has not been answered then.
    """
    with taken_stdio() as pipes:
        requester = Requester(Caller(Role.TRAINER))
        if episode is not None:
            origin = (await sessions.create(episode)).origin
            session_id = origin.session_id
            agent = Caller(Role.AGENT, f"agent:{session_id}", session_id, origin.episode_id)
            requester = Requester(agent, session_id)
        server = McpServer(SessionAccess(sessions, keyring, requester), version=__version__)
        # Reading starts only here: a reader's thread ends with the client alone, so an error before it is
        # reported at once, and not after the client's time limit.
        async with checked_stdio(*pipes) as (incoming, outgoing), server.running():
            await server.server.run(incoming, outgoing, server.server.create_initialization_options())
