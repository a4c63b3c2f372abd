"""Generates the blocking client from the async one: ors_server/client/blocking.py and mcp_blocking.py.

Every public method of `AsyncEpisode`, `AsyncClient` and `AsyncMcpClient` becomes one that runs the coroutine
on a loop in a thread and waits for it, with the same parameters and the first line of the docstring.

Usage: `python scripts/blocking_client.py` writes the files; `--check` says whether they are up to date.
"""

import ast
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

CLIENT = Path(__file__).parents[1] / "ors_server" / "client"
LEFT_OUT = {"aclose", "keep_alive"}
"""Public methods that a blocking class has in another form, or does not need."""

EPISODE = '''
    def __init__(self, loop: LoopThread, episode: AsyncEpisode) -> None:
        """Play an episode of a loop from another thread."""
        self._loop = loop
        self.on_loop = episode
        """The async episode."""

    @property
    def ledger(self) -> Ledger:
        """The rewards that this client received, call by call."""
        return self.on_loop.ledger

    def play(self, agent: Agent, *, max_calls: int | None = None) -> Played:
        """Let an agent play, as [`play`][ors_server.client.play] does; it runs on the client's loop."""
        return self._loop.run(lambda: play(self.on_loop, agent, max_calls=max_calls))
'''
CLIENT_BODY = '''
        self.on_loop = {cls}({passed})
        """The async client."""
        self._loop = LoopThread(self.on_loop.aclose)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Delete the sessions of open episodes, close all connections and end the loop."""
        self._loop.close()
'''


@dataclass(frozen=True)
class Twin:
    """A blocking class, and the async one that it is made from."""

    name: str
    module: str
    source: str
    docstring: str


ABOUT = """The blocking clients and episodes, for threads, scripts and notebooks; generated, so do not edit.

Each client runs an event loop in its own thread, and its methods wait for the async ones. It works in a
notebook, and several threads may share it.
"""
FILES = {
    "blocking.py": (
        ABOUT,
        (
            Twin(
                "Episode",
                "async_episode",
                "AsyncEpisode",
                "An open episode: [`AsyncEpisode`][ors_server.client.AsyncEpisode] with methods that block.",
            ),
            Twin(
                "Client",
                "async_client",
                "AsyncClient",
                "A client of one server: [`AsyncClient`][ors_server.client.AsyncClient] with methods that "
                "block.\n\n    Used as a context manager, or closed by `close`; one that is left open is "
                "closed when Python exits.\n    ",
            ),
        ),
    ),
    "mcp_blocking.py": (
        "The blocking client that uses only MCP; generated, so do not edit.",
        (
            Twin(
                "McpClient",
                "mcp_client",
                "AsyncMcpClient",
                "A client of one server over MCP alone: `AsyncMcpClient` with methods that block.",
            ),
        ),
    ),
}
IMPORTS = """
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self
from typing_extensions import Unpack
from ors_server.client.blocking import Episode
from ors_server.client.async_client import AsyncClient
from ors_server.client.async_episode import AsyncEpisode
from ors_server.client.ledger import Ledger
from ors_server.client.loop_thread import LoopThread
from ors_server.client.mcp_client import AsyncMcpClient
from ors_server.client.agent_loop import Agent, Played, play
"""
"""What generated code uses besides the names of the async signatures."""


def generate() -> dict[str, str]:
    """Return the text of each generated file, by its name."""
    return {name: _format(_file(name, about, twins)) for name, (about, twins) in FILES.items()}


def _file(name: str, about: str, twins: tuple[Twin, ...]) -> str:
    classes = "\n\n".join(map(_class, twins))
    imports = ast.parse(IMPORTS).body
    for twin in twins:
        imports += ast.parse((CLIENT / f"{twin.module}.py").read_text()).body
    used = {each.id for each in ast.walk(ast.parse(classes)) if isinstance(each, ast.Name)}
    own = f"ors_server.client.{name.removesuffix('.py')}"
    needed: dict[str, str] = {}
    for each in imports:
        if isinstance(each, ast.ImportFrom) and each.module != own:
            for found in sorted(used & {alias.name for alias in each.names}):
                needed.setdefault(found, f"from {each.module} import {found}")
    return f'"""{about}"""\n' + "\n".join(needed.values()) + "\n\n\n" + classes


def _class(twin: Twin) -> str:
    tree = ast.parse((CLIENT / f"{twin.module}.py").read_text())
    found = next(each for each in tree.body if isinstance(each, ast.ClassDef) and each.name == twin.source)
    functions = [each for each in found.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
    made = next(each for each in functions if each.name == "__init__")
    parts = [f'class {twin.name}:\n    """{twin.docstring}"""']
    parts.append(EPISODE if twin.name == "Episode" else _constructor(made, twin.source))
    parts += [
        _method(each) for each in functions if not each.name.startswith("_") and each.name not in LEFT_OUT
    ]
    return "\n".join(parts)


def _constructor(made: ast.FunctionDef | ast.AsyncFunctionDef, source: str) -> str:
    docstring = _docstring(made).replace("Open nothing yet", "Start the loop and open nothing yet")
    head = f"    def __init__({ast.unparse(made.args)}) -> None:\n{docstring}"
    return head + CLIENT_BODY.format(cls=source, passed=_passed(made.args))


def _method(method: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    name, docstring = method.name, _docstring(method)
    result = "" if method.returns is None else ast.unparse(method.returns).strip("'")
    decorators = {ast.unparse(each) for each in method.decorator_list}
    if "property" in decorators:
        head = f"    @property\n    def {name}(self) -> {result}:\n"
        return f"{head}{docstring}        return self.on_loop.{name}\n"
    head = f"    def {name}({ast.unparse(method.args)})"
    asked = f"self.on_loop.{name}({_passed(method.args)})"
    if "asynccontextmanager" in decorators or "AsyncContextManager" in result:
        return (
            f"    @contextmanager\n{head} -> Generator[Episode]:\n{docstring}"
            f"        with self._loop.hold({asked}) as episode:\n"
            "            yield Episode(self._loop, episode)\n"
        )
    run = asked.removesuffix("()") if asked.endswith("()") else f"lambda: {asked}"
    return f"{head} -> {result}:\n{docstring}        return self._loop.run({run})\n"


def _docstring(method: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    first_line = (ast.get_docstring(method) or "").partition("\n")[0]
    return f'        """{first_line}"""\n'


def _passed(arguments: ast.arguments) -> str:
    passed = [each.arg for each in arguments.args[1:]]
    passed += [f"{each.arg}={each.arg}" for each in arguments.kwonlyargs]
    return ", ".join(passed + ([] if arguments.kwarg is None else [f"**{arguments.kwarg.arg}"]))


def _format(text: str) -> str:
    for command in (("check", "--fix", "--exit-zero", "--quiet"), ("format", "--quiet")):
        text = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(CLIENT / "blocking.py"), "-"],
            input=text,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    return text


def main() -> int:
    """Write the files, or check them."""
    old: list[str] = []
    for name, text in generate().items():
        path = CLIENT / name
        if path.read_text() != text:
            old.append(name)
            if "--check" not in sys.argv:
                path.write_text(text)
    if old and "--check" in sys.argv:
        print(f"{', '.join(old)} differ from the async client: run python scripts/blocking_client.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
