"""The project as its users get it: built, installed from the lock, away from the checkout; and its source."""

import ast
import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
URL = re.compile(rb"http://127\.0\.0\.1:(\d+)")


@dataclass(frozen=True)
class Image:
    """What the Dockerfile says, read as far as this project uses the format."""

    instructions: list[tuple[str, str]]

    @classmethod
    def read(cls, path: Path) -> "Image":
        text = re.sub(r"^\s*#.*\n", "", path.read_text(), flags=re.MULTILINE)
        lines = [line for line in text.replace("\\\n", " ").splitlines() if line.strip()]
        return cls([(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in lines)])

    def all(self, word: str) -> list[str]:
        return [rest for name, rest in self.instructions if name == word]

    def copied(self) -> list[tuple[list[str], str]]:
        """Returns what the first stage takes from the checkout, as (sources, destination)."""
        words = [shlex.split(rest) for rest in self.all("COPY") if not rest.startswith("--from")]
        return [(parts[:-1], parts[-1]) for parts in words]

    def environment(self) -> dict[str, str]:
        pairs = (word.partition("=") for rest in self.all("ENV") for word in shlex.split(rest))
        return {name: value for name, _, value in pairs}

    def command(self) -> list[str]:
        return [*json.loads(self.all("ENTRYPOINT")[-1]), *json.loads(self.all("CMD")[-1])]

    def healthcheck(self) -> list[str]:
        """Returns the command that says whether a container is healthy."""
        return list(json.loads(self.all("HEALTHCHECK")[-1].partition(" CMD ")[2]))


@dataclass(frozen=True)
class Installation:
    """An installed server that the checkout is not needed for."""

    folder: Path
    outside: Path
    """An empty folder to run things in."""

    def environment(self, **variables: str) -> dict[str, str]:
        ours = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PYTHON", "ORS_", "COV", "VIRTUAL_ENV"))
        }
        path = f"{self.folder / 'bin'}:{ours['PATH']}"
        return {**ours, "PATH": path, "ORS_STORE": "memory", **variables}

    def run(self, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Runs a command to its end, whatever its status."""
        return subprocess.run(
            command,
            cwd=self.outside,
            env=self.environment(**variables),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    @contextmanager
    def serving(self, *command: str, **variables: str) -> Iterator[int]:
        """Runs a server for the length of a with statement and gives the port that it says it listens on."""
        process = subprocess.Popen(
            command,
            cwd=self.outside,
            env=self.environment(**variables),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        assert process.stdout is not None
        try:
            said = b""
            for line in process.stdout:
                said += line
                if found := URL.search(line):
                    break
            else:
                pytest.fail(f"{command} ended and named no URL; it said: {said.decode()}")
            yield int(found[1])
        finally:
            process.terminate()
            process.communicate(timeout=30)


@pytest.fixture(scope="package")
def source_nodes() -> dict[str, list[ast.AST]]:
    """The nodes of each module of the package and the bundled environments, by its path.

    Parsing all of them takes seconds, so the files of this folder share them.
    """
    paths = [path for folder in ("ors_server", "tasks") for path in sorted((ROOT / folder).rglob("*.py"))]
    return {path.relative_to(ROOT).as_posix(): list(ast.walk(ast.parse(path.read_text()))) for path in paths}


@pytest.fixture(scope="session")
def image() -> Image:
    return Image.read(ROOT / "Dockerfile")


@pytest.fixture(scope="session")
def build_folder(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the image's first stage sees: the files that it copies and no others."""
    folder = tmp_path_factory.mktemp("src")
    for sources, destination in image.copied():
        for source in sources:
            origin, target = ROOT / source, folder / destination
            if origin.is_dir():
                shutil.copytree(origin, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                into = target / origin.name if destination.endswith(("/", ".")) else target
                into.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(origin, into)
    return folder


@pytest.fixture(scope="session")
def installation(build_folder: Path, image: Image, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """What the image's RUN instruction makes, somewhere else."""
    script, target, lock = next(run for run in image.all("RUN") if "install.sh" in run).split()
    assert ["--from=build", target, target] in [shlex.split(rest) for rest in image.all("COPY")]
    folder = tmp_path_factory.mktemp("opt") / "ors-server"
    made = subprocess.run(
        [build_folder / script, folder, lock],
        cwd=build_folder,
        env={**os.environ, "PIP_NO_COMPILE": "no"},  # pip reads it so: compile nothing
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    return Installation(folder, tmp_path_factory.mktemp("elsewhere"))
