"""A Java virtual machine in a separate process, whose objects this process calls through py4j.

Every wait is bounded: a JVM that does not answer within its time limit is killed, and killing it from another
thread frees a call that waits for it. py4j is needed when a JVM starts, not before.
"""

import logging
import os
import select
import shutil
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from ors_server.installation import package_hint
from ors_server.processes.child_variables import worker_variables
from ors_server.resources.resource_errors import MissingRequirementError, ResourceError
from ors_server.resources.watched_child import WatchedChild

JAVA_MISSING = (
    "Java not installed: run apt-get install -y --no-install-recommends openjdk-17-jre-headless "
    "(on Debian; version 17 or newer)"
)
_OPTIONS = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:+UnlockExperimentalVMOptions",
    "-XX:hashCode=2",
    "-XX:+IgnoreUnrecognizedVMOptions",
)
"""One JVM of many: one thread collects garbage, and only the quick compiler runs. In ScienceWorld it spends
a third less processor on a game than both compilers, and no more after 2,000 steps. All objects have the same
identity hash, a random number otherwise, by which sets would be in another order in each session of a JVM;
a JVM of another maker may not know how, and starts all the same."""
_GREETING_BYTES = 4_096
_OUT_OF_MEMORY = "java.lang.OutOfMemoryError"
_RELEASE = "m\nd\n{}\ne\n"
"""py4j's command that releases an object."""


def find_java() -> str:
    """Return the path of the program `java`, in `JAVA_HOME` or on `PATH`.

    Raises:
        MissingRequirementError: Java is missing; the message has the command that installs it.
    """
    home = os.environ.get("JAVA_HOME")
    program = shutil.which("java", path=str(Path(home, "bin"))) if home else None
    program = program or shutil.which("java")
    if program is None:
        raise MissingRequirementError(JAVA_MISSING)
    return program


class JvmChild:
    """One JVM. Any thread may use it, one call at a time; any thread may close it at any time."""

    def __init__(
        self,
        class_path: Sequence[str | Path],
        *,
        folder: str | Path | None = None,
        heap_mib: int = 128,
        start_timeout: float = 60.0,
        call_timeout: float = 60.0,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        """Start a JVM, which listens on loopback and answers only to this process's token, and connect to it.

        Args:
            class_path: Its jars and folders.
            folder: The folder in which it runs; by default this process's.
            heap_mib: Most mebibytes of its heap.
            start_timeout: Seconds that it may take to start, and then for its first answer.
            call_timeout: Seconds that Java code may take to answer before the JVM is killed.
            variables: Environment variables besides those that every worker gets: paths, locale, and what
                `ORS_WORKER_VARIABLES` names.

        Raises:
            MissingRequirementError: Java or py4j is missing.
            ResourceError: It did not start.
        """
        java = find_java()
        py4j, self._protocol = _import_py4j()
        paths = os.pathsep.join([py4j.find_jar_path(), *map(str, class_path)])
        self._heap_mib = heap_mib
        self._call_timeout = call_timeout
        self._lock = threading.Lock()
        self._released: deque[str] = deque()
        self._connection: Any = None
        self._is_closed = False
        self._child = WatchedChild(
            [
                *(java, f"-Xmx{heap_mib}m", *_OPTIONS, "-classpath", paths),
                *("py4j.GatewayServer", "--die-on-broken-pipe", "--enable-auth", "0"),
            ],
            folder=None if folder is None else str(folder),
            variables=worker_variables(variables),
        )
        try:
            self.classes = self._connect(py4j, *self._read_greeting(start_timeout))
            self.call(self._discard_output, time_limit=start_timeout)
        except BaseException:
            self.close()
            raise

    classes: Any
    """The JVM's packages and classes, as `classes.java.lang.System`. Use them within `call` only: the JVM
    is asked for each name."""

    @property
    def pid(self) -> int:
        """The JVM's process id."""
        return self._child.pid

    def call(self, function: Callable[..., Any], *arguments: Any, time_limit: float | None = None) -> Any:
        """Call a method of a Java object, or a function that uses such objects.

        Args:
            time_limit: Seconds that Java code may take this time, if not `call_timeout`.

        Raises:
            ResourceError: The JVM died, ran out of memory, or did not answer in time; it is killed.
            Exception: Java code threw something else, which is py4j's `Py4JJavaError`; the JVM keeps running.
        """
        seconds = self._call_timeout if time_limit is None else time_limit
        with self._lock:
            try:
                self._connection.socket.settimeout(seconds)
                result = function(*arguments)
                # The Java objects whose Python objects are gone; those may go in any thread.
                while self._released:
                    self._connection.send_command(_RELEASE.format(self._released.popleft()))
                return result
            except (self._protocol.Py4JError, OSError) as error:
                problem = self._explain(error, seconds)
                if problem is None:
                    raise
            except Exception as error:  # the border to py4j, which may raise anything once it was closed
                if not self._is_closed:
                    raise
                problem = f"was closed meanwhile ({_cause(error)})"
            except BaseException:  # it broke a call off, and the next call would read that one's answer
                self._child.kill()
                raise
            self._child.kill()
            raise ResourceError(f"the JVM {problem}; it was killed{self._child.quoted_words()}")

    def is_alive(self) -> bool:
        """Return whether its process runs."""
        return self._child.is_alive()

    def memory_used(self) -> int | None:
        """Return its resident bytes; `None` where there is no /proc."""
        return self._child.memory_used()

    def close(self) -> None:
        """Kill it, which frees a call that waits for it; a second call does nothing."""
        self._is_closed = True
        self._child.end()
        with suppress(Exception):
            if self._connection is not None:
                self._connection.close()

    def _explain(self, error: Exception, seconds: float) -> str | None:
        """Return what an error says about the JVM; `None` if it is Java code's own."""
        if not isinstance(error, self._protocol.Py4JJavaError):
            return f"does not answer within {seconds:g} seconds or has ended ({_cause(error)})"
        with suppress(self._protocol.Py4JError, OSError):  # it is asked for the text
            if _OUT_OF_MEMORY not in str(error):
                return None
        return f"ran out of the {self._heap_mib} MiB of its heap"

    def _read_greeting(self, seconds: float) -> tuple[int, str]:
        """Return the port and the token, the first two lines that it prints."""
        deadline, greeting = time.monotonic() + seconds, b""
        poll = select.poll()
        poll.register(self._child.output, select.POLLIN)
        while greeting.count(b"\n") < 2:  # noqa: PLR2004  (port and token)
            if not poll.poll(max(0.0, 1000 * (deadline - time.monotonic()))):
                raise ResourceError(
                    f"the JVM did not start within {seconds:g} seconds{self._child.quoted_words()}"
                )
            piece = os.read(self._child.output, _GREETING_BYTES)
            if not piece:
                break
            greeting += piece
        port, *rest = greeting.decode(errors="replace").split("\n")
        if not port.isdecimal() or not rest:  # java prints what is wrong with its options there, too
            printed = f"{greeting.decode(errors='replace').strip()!r:.500}"
            raise ResourceError(
                f"the JVM did not start: it printed {printed} and {self._child.describe_end()}"
            )
        return int(port), rest[0]

    def _connect(self, py4j: Any, port: int, token: str) -> Any:
        """Connect without py4j's pool, which logs each error, repeats calls, and sends where it likes."""
        parameters = py4j.GatewayParameters(port=port, auth_token=token, read_timeout=self._call_timeout)
        connection = self._connection = py4j.GatewayConnection(parameters)
        connection.garbage_collect_object = self._released.append
        connection.start()
        return py4j.JavaGateway(gateway_client=connection, gateway_parameters=parameters).jvm

    def _discard_output(self) -> None:
        """Discard what Java code prints on standard output, which no thread reads."""
        java = self.classes.java
        java.lang.System.setOut(java.io.PrintStream(java.io.OutputStream.nullOutputStream()))


def _cause(error: Exception) -> str:
    cause = getattr(error, "cause", None)
    return f"{type(error).__name__}: {error}" + (f", {cause}" if cause else "")


def _import_py4j() -> tuple[Any, Any]:
    try:
        modules = import_module("py4j.java_gateway"), import_module("py4j.protocol")
    except ImportError as error:
        raise MissingRequirementError(
            f"the package py4j is missing ({error}): {package_hint('py4j')}"
        ) from error
    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # it logs the errors that it raises
    return modules
