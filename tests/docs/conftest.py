"""Runs a document: its programs and its commands, in order, in a folder of its own."""

import contextlib
import os
import re
import shlex
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(\w*)([^\n]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
PIECE = re.compile(r"""\|\||&&|[;&()|]|(?:'[^']*'|"(?:[^"\\]|\\.)*"|\\.|[^;&()|'"\\])+""")
"""A command of a shell's line, or what connects two."""
ADDRESS = "127.0.0.1:8080"
"""Where the documents' server is; the tests' server takes a free port instead."""
COMMAND = str(Path(sys.executable).with_name("ors-server"))
"""Its path, by which a command without a shell is forked where the tests have a prepared interpreter."""
LIMIT = 120
"""Seconds that one program or command may take."""


@dataclass
class Reader:
    """Somebody who does what a document says.

    A `python` block is a program; blocks that follow one another without a command between them are one
    program. With `client=NAME` it runs in that client's environment, where ors_server can be imported too. A
    block with `file=NAME` is written to that file. In a `console` block, a line that begins with `$ ` is a
    command; the others are its output, in which `...` stands for anything. `ors-server serve` goes on beside
    the rest. Blocks of other languages are only read.
    """

    folder: Path
    port: int
    stack: contextlib.ExitStack
    program: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    """Clients whose examples could not run, because their environment is not there."""

    def read(self, text: str) -> None:
        """Does what a document says, from its beginning to its end."""
        for language, about, body in BLOCK.findall(text):
            options = dict(word.split("=", 1) for word in about.split() if "=" in word)
            if "file" in options:
                (self.folder / options["file"]).write_text(body)
            elif language == "python" and "client" in options:
                self._finish_program()
                self._run_client(options["client"], body)
            elif language == "python":
                self.program.append(body)
            elif language == "console":
                self._finish_program()
                self._type(body)
        self._finish_program()

    def _finish_program(self) -> None:
        if self.program:
            self._run([sys.executable, "-W", "error", "-c", self._here("\n".join(self.program))])
        self.program = []

    def _run_client(self, client: str, body: str) -> None:
        python = Path(os.environ.get("ORS_TEST_VENVS", ROOT / ".venvs")) / client / "bin" / "python"
        if python.exists():
            self._run([str(python), "-c", self._here(body)], PYTHONPATH=str(ROOT))
        else:
            self.missing.append(client)

    def _type(self, body: str) -> None:
        for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
            command, _, expected = part.partition("\n")
            words = shlex.split(command)
            is_server = words[:2] == ["ors-server", "serve"]
            output = self._serve(command) if is_server else self._run_line(self._here(command))
            check_output(expected, output.replace(f"127.0.0.1:{self.port}", ADDRESS))

    def _serve(self, command: str) -> str:
        words = [COMMAND, *shlex.split(self._here(command))[1:], "--port", str(self.port)]
        server = subprocess.Popen(
            words,
            cwd=self.folder,
            env=self._environ(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.stack.callback(end, server)
        lines = []
        for line in server.stdout or ():
            lines.append(line)
            if line.startswith("Stop with"):
                break
        assert lines, f"{command} said nothing"
        return "".join(lines)

    def _run_line(self, line: str) -> str:
        """Does what a shell does with a line, but starts the package's commands in it without one."""
        output, status = [], 0
        for operator, parts in split_line(line):
            if (status == 0) == (operator == "&&"):
                text, status, errors = self._connect([words_of(part) for part in parts])
                output.append(text)
        assert status == 0, f"{line}\n{''.join(output)}\n{errors}"
        return "".join(output)

    def _run(self, words: list[str], **variables: str) -> str:
        output, status, errors = self._connect([words], **variables)
        assert status == 0, f"{words[-1]}\n{output}\n{errors}"
        return output

    def _connect(self, commands: list[list[str]], **variables: str) -> tuple[str, int, str]:
        """Runs commands, each of which reads what the one before it writes.

        Returns what the last one wrote, the status of the last one that failed or 0, and all errors.
        """
        with tempfile.TemporaryFile("w+") as errors, contextlib.ExitStack() as stack:
            processes: list[subprocess.Popen[str]] = []
            for words in commands:
                process = subprocess.Popen(
                    words,
                    cwd=self.folder,
                    env={**self._environ(), **variables},
                    stdin=processes[-1].stdout if processes else subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    text=True,
                )
                processes.append(stack.enter_context(process))
                stack.callback(process.kill)  # which is nothing for one that has ended
            for process in processes[:-1]:
                process.stdout.close()
            output, _ = processes[-1].communicate(timeout=LIMIT)
            statuses = [process.wait(LIMIT) for process in processes]
            errors.seek(0)
            return output, next(filter(None, reversed(statuses)), 0), errors.read()

    def _environ(self) -> dict[str, str]:
        scripts = str(Path(sys.executable).parent)
        quiet = {"OPENREWARD_DISABLE_UPDATE_CHECK": "1", "TRL_EXPERIMENTAL_SILENCE": "1"}
        path = f"{scripts}{os.pathsep}{os.environ['PATH']}"
        return {**os.environ, **quiet, "NO_PROXY": "127.0.0.1", "PATH": path, "COLUMNS": "80"}

    def _here(self, text: str) -> str:
        return text.replace(ADDRESS, f"127.0.0.1:{self.port}")


def split_line(line: str) -> list[tuple[str, list[str]]]:
    """Return the pipelines of a line, as (the operator before it, its commands); the first one has "&&".

    A line that connects commands by anything but `|`, `&&` and `||` is a single command of a shell.
    """
    first, *rest = PIECE.findall(re.sub(r"\s+#[^'\"]*$", "", line))
    if "\n" in line or set(rest[::2]) - {"|", "&&", "||"}:
        return [("&&", [line])]
    pipelines = [("&&", [first])]
    for operator, command in zip(rest[::2], rest[1::2], strict=True):
        if operator == "|":
            pipelines[-1][1].append(command)
        else:
            pipelines.append((operator, [command]))
    return pipelines


def needs_shell(command: str) -> bool:
    """Return whether a command has something that a shell expands or redirects."""
    tokens = shlex.shlex(command, posix=True, punctuation_chars=True)
    return bool(re.search(r"[\n$`*?~#!]", re.sub(r"'[^']*'", "", command))) or any(
        re.fullmatch(r"[();<>|&]+", word) for word in tokens
    )


def words_of(command: str) -> list[str]:
    """Return the words by which a command is started: of the package, or of a shell that runs it."""
    words = shlex.split(command)
    if words[0] == "ors-server" and not needs_shell(command):
        return [COMMAND, *words[1:]]
    return ["bash", "-euo", "pipefail", "-c", command]


def check_output(expected: str, output: str) -> None:
    """Demands every line that a document shows, in order; `...` stands for any number of lines."""
    pattern = "".join(
        "(?:.*\n)*?" if line.strip() == "..." else re.escape(line.rstrip()) + r"[ \t]*\n"
        for line in expected.rstrip().splitlines()
    )
    assert re.fullmatch(pattern, output if output.endswith("\n") else f"{output}\n"), (
        f"{expected}\n---\n{output}"
    )


def end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    process.communicate(timeout=LIMIT)


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    """A reader with an empty folder; what it starts ends with the test."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with contextlib.ExitStack() as stack:
        yield Reader(tmp_path, port, stack)
