"""PostgreSQL for tests: a cluster in a folder of its own, which may be stopped, killed and started again.

A cluster is nobody else's: it listens on loopback alone, on a port that it took, with a password that it made
up, and it ends with the thread that started it. The server refuses to run as root, so that root starts it as
another user. Whoever asks for it and has no PostgreSQL fails; `make test` installs it.
"""

import contextlib
import os
import pwd
import random
import re
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import psycopg
import pytest

FOLDERS = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql@*/bin")
"""Where distributions keep the server's programs, apart from `PATH`."""
PORTS = range(15_000, 32_000)
"""Below those that the kernel gives to outgoing connections (from 32768 on), so that a stopped server finds
its port as it left it."""
START_LIMIT = 60.0
"""Seconds that a server may take to answer, its recovery after a crash included."""
STOP_LIMIT = 30.0
LOOK_SECONDS = 0.02
USERS = ("postgres", "nobody")
"""Whom root runs the server as: the first of them that the machine knows."""
FAST = ("fsync=off", "full_page_writes=off", "autovacuum=off")
"""Settings with which a crash of the machine, though not of the server, may lose what was committed.

Dozens of small databases need no tidying."""


class PostgresError(Exception):
    """PostgreSQL is not installed, or the server did not start or stop."""


def find_programs() -> Path:
    """Return the folder of `initdb` and `postgres`, the newest version's.

    Raises:
        PostgresError: If there is none.
    """
    on_path = shutil.which("initdb")
    if on_path is not None:
        return Path(on_path).resolve().parent
    found = [folder for pattern in FOLDERS for folder in Path("/").glob(pattern[1:])]
    found = [folder for folder in found if (folder / "initdb").exists()]
    if not found:
        raise PostgresError(
            f"expected PostgreSQL's initdb on PATH or in {', '.join(FOLDERS)}, found none; "
            "install it: apt-get install postgresql, or scripts/system_packages.sh postgresql"
        )
    return max(found, key=lambda folder: [int(number) for number in re.findall(r"\d+", str(folder))])


class PostgresServer:
    """One cluster and the server that runs over it, or does not."""

    def __init__(self, *, durable: bool = True, within: Path | None = None) -> None:
        """Make the cluster; the server is not started.

        Args:
            durable: Whether what was committed is on the disk; without it everything is faster.
            within: Folder to make the cluster's in, which the server's user must be able to enter; by default
                that of temporary files.

        Raises:
            PostgresError: If PostgreSQL is missing or the cluster cannot be made.
        """
        self._programs = find_programs()
        self._settings = () if durable else FAST
        self._account = _account()
        self._password = secrets.token_hex(16)
        self._databases = 0
        self._process: subprocess.Popen[bytes] | None = None
        self.folder = Path(tempfile.mkdtemp(prefix="ors-postgres-", dir=within))
        """Holds the cluster, `data`, and what the server says, `log`."""
        self.port = _free_port()
        if self._account is not None:
            os.chown(self.folder, self._account.pw_uid, self._account.pw_gid)
        try:
            self._initialise()
        except BaseException:
            self.remove()
            raise

    @property
    def url(self) -> str:
        return self.url_of("postgres")

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def url_of(self, database: str) -> str:
        return f"postgresql://ors:{self._password}@127.0.0.1:{self.port}/{database}"

    def create_database(self) -> str:
        self._databases += 1
        name = f"ors_{self._databases}"
        self.execute(f"CREATE DATABASE {name}")
        return self.url_of(name)

    def drop_database(self, url: str) -> None:
        """Remove a database of `create_database`, which takes 8 MB; nobody may be connected to it."""
        self.execute(f"DROP DATABASE {url.rpartition('/')[2]}")

    def execute(self, statement: str) -> None:
        """Run one statement outside a transaction, as the cluster's owner."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(statement.encode())

    def start(self) -> None:
        """Start the server and wait until it answers; after a crash it recovers first.

        Raises:
            PostgresError: If it does not answer in time.
        """
        deadline = time.monotonic() + START_LIMIT
        while time.monotonic() < deadline:
            if not self.is_running:
                self._process = self._launch()
            if self._answers():
                return
            with contextlib.suppress(subprocess.TimeoutExpired):
                # Processes of a killed server may hold its memory for a moment; then the next one gives up.
                self._process.wait(LOOK_SECONDS)
        raise PostgresError(f"PostgreSQL did not start within {START_LIMIT:g} s: {self._said()}")

    def stop(self, mode: str = "fast") -> None:
        """End the server, if it runs, and wait until it has ended.

        Args:
            mode: `fast` rolls back and disconnects everybody; `immediate` lets go of everything at once and
                leaves the recovery to the next start; `smart` waits until everybody has gone.

        Raises:
            PostgresError: If it does not end in time.
        """
        signals = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}
        if self._process is None:
            return
        self._process.send_signal(signals[mode])
        try:
            self._process.wait(STOP_LIMIT)
        except subprocess.TimeoutExpired as error:
            raise PostgresError(f"PostgreSQL did not stop within {STOP_LIMIT:g} s: {self._said()}") from error
        self._process = None

    def restart(self, mode: str = "fast") -> None:
        self.stop(mode)
        self.start()

    def kill(self) -> None:
        """Send SIGKILL to every process of the server; nobody has a chance to write anything more."""
        if self._process is None:
            return
        backends = self.backends()
        self._process.kill()
        for pid in backends:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait(STOP_LIMIT)
        self._process = None

    def kill_first_process(self) -> None:
        """Send SIGKILL to the process that started all the others, which end once they notice."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(STOP_LIMIT)
            self._process = None

    def kill_backend(self, application: str) -> int:
        """Send SIGKILL to a process that serves a connection; the server then breaks every connection.

        Returns:
            The pid.

        Raises:
            PostgresError: If nobody of that name is connected.
        """
        query = b"SELECT pid FROM pg_stat_activity WHERE application_name = %s ORDER BY pid LIMIT 1"
        with psycopg.connect(self.url) as connection:
            row = connection.execute(query, [application]).fetchone()
        if row is None:
            raise PostgresError(f"nobody who calls himself {application!r} is connected")
        os.kill(row[0], signal.SIGKILL)
        return int(row[0])

    def backends(self) -> list[int]:
        """Return the pids of the processes that the server started: one per connection, and its own."""
        if self._process is None:
            return []
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        with contextlib.suppress(OSError):
            return [int(pid) for pid in children.read_text().split()]
        return []

    def remove(self) -> None:
        """End the server and remove the cluster."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _initialise(self) -> None:
        words = self.folder / "password"
        words.write_text(self._password)
        words.chmod(0o600)
        if self._account is not None:
            os.chown(words, self._account.pw_uid, self._account.pw_gid)
        command = [str(self._programs / "initdb"), "--pgdata", str(self.folder / "data"), "--username=ors"]
        command += [f"--pwfile={words}", "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync"]
        done = subprocess.run(
            self._as_owner(command), cwd=self.folder, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise PostgresError(f"initdb failed with status {done.returncode}: {done.stderr[-2000:]}")
        words.unlink()

    def _launch(self) -> "subprocess.Popen[bytes]":
        settings = (
            "listen_addresses=127.0.0.1",
            f"port={self.port}",
            "unix_socket_directories=",
            "max_connections=100",
            *self._settings,
        )
        command = [str(self._programs / "postgres"), "-D", str(self.folder / "data")]
        command += [word for setting in settings for word in ("-c", setting)]
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(
                self._as_owner(command), cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def _as_owner(self, command: Sequence[str]) -> list[str]:
        account = self._account
        drop = (
            []
            if account is None
            else [f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups"]
        )
        return ["setpriv", *drop, "--pdeathsig", "QUIT", "--", *command]

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url, connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def _said(self) -> str:
        log = self.folder / "log"
        return log.read_text(errors="replace")[-2000:] if log.exists() else "nothing was said"


def _account() -> pwd.struct_passwd | None:
    if os.geteuid() != 0:
        return None
    for name in USERS:
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise PostgresError(f"PostgreSQL refuses to run as root, and this machine has none of {', '.join(USERS)}")


def _free_port() -> int:
    for port in random.SystemRandom().sample(PORTS, 100):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise PostgresError(f"none of 100 ports from {PORTS.start} to {PORTS.stop} is free")


@contextlib.contextmanager
def running_postgres(*, durable: bool = True, within: Path | None = None) -> Iterator[PostgresServer]:
    """Run a cluster for the length of a with statement."""
    server = PostgresServer(durable=durable, within=within)
    try:
        server.start()
        yield server
    finally:
        server.remove()


@pytest.fixture(scope="session")
def postgres(pytestconfig: pytest.Config) -> Iterator[PostgresServer]:
    """A running server for tests of anything but durability; each process of the tests has one of its own.

    Take a database of your own with `postgres.create_database()`, and leave the server running.
    """
    if "not external" in pytestconfig.getoption("markexpr"):
        pytest.fail("this test needs PostgreSQL: mark it with pytest.mark.external")
    with running_postgres(durable=False) as server:
        yield server
