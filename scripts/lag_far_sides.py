"""Far sides for `lag.py`: hostile bodies of a size, the server that sends them, and tools that ask it."""

import contextlib
import gzip
import http.server
import json
import threading
from collections.abc import Callable, Iterator, Mapping

from websockets.sync.server import ServerConnection, serve

MIB = 1 << 20
TOOLS = '''
import anyio.to_thread

from ors_server import Environment, TextBlock, ToolOutput, tool
from ors_server.adapters.openenv_server import from_openenv
from ors_server.environments.simulated_user.model_user import ModelUser
from ors_server.environments.simulated_user.user_script import UserScript
from ors_server.client import AsyncClient, AsyncMcpClient, ClientOptions, Patience
from ors_server.evaluation.agents.chat_endpoint import ChatEndpoint
from ors_server.rewards.judges.judge_endpoint import EndpointJudge, EndpointOptions

MESSAGES = [{"role": "user", "content": "How good is it?"}]


async def ors(url, socket):
    patience = Patience(attempts=1, answer_seconds=60.0)
    outcomes = []
    async with AsyncClient(url, options=ClientOptions(patience=patience)) as client:
        for read in (
            client.environments,
            lambda: client.splits("lag"),
            lambda: client.tasks("test", 0, 3, environment="lag"),
            lambda: client.tools("lag"),
            lambda: client.steps("s"),
        ):
            outcomes.append(await outcome(read))
    return outcomes[-1]


async def mcp(url, socket):
    patience = Patience(attempts=1, answer_seconds=60.0)
    options = ClientOptions(patience=patience)
    async with AsyncMcpClient(url, era="2026-07-28", options=options) as client:
        async with client.lobby_episode("lag", "test", 0):
            pass


async def chat(url, socket):
    endpoint = ChatEndpoint(url, api_key_env="NO_SUCH_KEY", tries=1, time_limit=60.0)
    try:
        return await endpoint.complete({"model": "m", "messages": MESSAGES})
    finally:
        await endpoint.aclose()


def endpoint_judge(url):
    return EndpointJudge("m", base_url=url, options=EndpointOptions(time_limit=60.0, most_retries=0))


async def judge(url, socket):
    return await endpoint_judge(url).complete(MESSAGES, {})


async def user(url, socket):
    return await ModelUser(UserScript(goal="You want a room."), endpoint_judge(url)).reply("Which?", [], 0)


async def openenv_schema(url, socket):
    return await anyio.to_thread.run_sync(lambda: from_openenv(url, [{}], answer_seconds=60.0))


async def openenv_socket(url, socket):
    environment = await anyio.to_thread.run_sync(lambda: from_openenv(socket, [{}], answer_seconds=60.0))
    played = environment({"reset": {}})
    try:
        await played.setup()
    finally:
        await played.teardown()


async def outcome(read):
    try:
        return f"{type(await read()).__name__}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:120]


ASKED = (ors, mcp, chat, judge, user, openenv_schema, openenv_socket)
SIDES = {function.__name__: function for function in ASKED}


class Lag(Environment):
    """Asks a far side."""

    name = "lag"

    @classmethod
    def list_splits(cls):
        return ["test"]

    @classmethod
    def list_tasks(cls, split):
        return [{"id": 0}]

    def get_prompt(self):
        return [TextBlock(text="Call.")]

    @tool
    async def ask(self, side: str, url: str, socket: str) -> ToolOutput:
        """Ask a far side."""
        return ToolOutput.ongoing(await outcome(lambda: SIDES[side](url, socket)))
'''
SIDES = ("ors", "mcp", "chat", "judge", "user", "openenv_schema", "openenv_socket")
SCHEMA = {"action": {"title": "Guess", "type": "object", "properties": {"number": {"type": "integer"}}}}


def completion(content: str) -> str:
    """Return a completion of a model with so much text."""
    message = {"role": "assistant", "content": content}
    choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
    return json.dumps({"id": "c", "object": "chat.completion", "model": "m", "choices": choices})


def rpc(result: str) -> str:
    """Return the answer to the first request of an MCP client."""
    return f'{{"jsonrpc":"2.0","id":1,"result":{result}}}'


def repeat(part: str, size: int) -> str:
    """Return a text repeated to about a size."""
    return part * (size // len(part))


BODIES: Mapping[str, Callable[[int], str]] = {
    "numbers": lambda size: "[" + repeat("1,", size) + "1]",
    "floats": lambda size: "[" + repeat("1e-9,", size) + "1]",
    "texts": lambda size: "[" + repeat('"' + "a" * 97 + '",', size) + "1]",
    "objects": lambda size: "[" + repeat("{},", size) + "1]",
    "fields": lambda size: json.dumps({f"n{number}": 1 for number in range(size // 12)}),
    "repeated names": lambda size: "{" + repeat('"a":1,', size) + '"b":1}',
    "brackets": lambda size: repeat("[", size),
    "nested": lambda size: repeat("[", size // 2) + repeat("]", size // 2),
    "digits": lambda size: repeat("9", size),
    "one text": lambda size: json.dumps(repeat("a", size)),
    "escapes": lambda size: '"' + repeat("\\u0001", size) + '"',
    "white space": lambda size: repeat(" ", size) + "1",
    "no JSON": lambda size: repeat("<a>", size),
    "said": lambda size: completion(repeat("a", size)),
    "said controls": lambda size: completion(repeat("\x01", size // 6)),
    "MCP, a text": lambda size: rpc(f'{{"a":"{repeat("a", size)}"}}'),
    "MCP, numbers": lambda size: rpc(f'{{"a":[{repeat("1,", size)}1]}}'),
    "MCP, objects": lambda size: rpc(f'{{"a":[{repeat("{},", size)}1]}}'),
    "MCP, names": lambda size: rpc(json.dumps({f"n{number}": 1 for number in range(size // 12)})),
    "said numbers": lambda size: completion("[" + repeat("1,", size) + "1]"),
}


class FarSide(http.server.ThreadingHTTPServer):
    """Sends the body of its path, `/KIND/SIZE` or `/KIND/SIZE/packed`, and whatever follows."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.bodies: dict[str, bytes] = {}

    def body(self, path: str) -> bytes:
        """Return the body of a path, which is made once."""
        kind, size = (part.replace("_", " ") for part in path.strip("/").split("/")[:2])
        name = f"{kind} {size}"
        if name not in self.bodies:
            self.bodies = {name: make_body(kind, int(size))}
        return self.bodies[name]


def make_body(kind: str, size: int) -> bytes:
    """Return a body; one of the kind `bomb` is packed and unpacks to 1,000 times its size."""
    if kind == "bomb":
        piece = gzip.compress(bytes(MIB), 9)
        return piece * max(1, size // len(piece))
    return BODIES[kind](size).encode()


class _Handler(http.server.BaseHTTPRequestHandler):
    server: FarSide

    def do_GET(self) -> None:
        body, is_packed = self.server.body(self.path), "bomb" in self.path
        if "packed" in self.path:
            body, is_packed = gzip.compress(body, 1), True
        length = int(self.headers.get("content-length") or 0)
        self.rfile.read(length)
        with contextlib.suppress(OSError):
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            if is_packed:
                self.send_header("content-encoding", "gzip")
            self.end_headers()
            self.wfile.write(body)

    do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815  (as above)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextlib.contextmanager
def far_sides() -> Iterator[tuple[str, str]]:
    """Serve hostile bodies; gives the URLs of the server and of its WebSocket."""
    server = FarSide()

    def open_socket(connection: ServerConnection) -> None:
        with contextlib.suppress(Exception):
            path = connection.request.path if connection.request else ""
            for _ in connection:
                body = server.body(path).decode(errors="replace")
                connection.send(f'{{"type": "observation", "data": {body}}}')

    def answer_schema(connection: ServerConnection, request: object) -> object:
        if "/schema" not in getattr(request, "path", ""):
            return None
        response = connection.respond(200, json.dumps(SCHEMA))
        del response.headers["Content-Type"]
        response.headers["Content-Type"] = "application/json"
        return response

    socket = serve(open_socket, "127.0.0.1", 0, process_request=answer_schema, max_size=None)  # type: ignore[arg-type]
    for target in (server.serve_forever, socket.serve_forever):
        threading.Thread(target=target, daemon=True).start()
    try:
        yield (
            f"http://127.0.0.1:{server.server_address[1]}",
            f"ws://127.0.0.1:{socket.socket.getsockname()[1]}",
        )
    finally:
        server.shutdown()
        socket.shutdown()
