"""Crowds of sandboxed sessions on a real server: killed at random moments, and ten thousand in a row.

Whatever happens, nothing of a dead server's sessions is left once another server has started, and nothing of
anybody else's is touched.
"""

import contextlib
import http.client
import os
import random
import secrets
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from tests.fixtures import shell_traces
from tests.fixtures.shell_host import read_proc
from tests.fixtures.shell_server import (
    NOBODY,
    ShellServer,
    ShellServerError,
    ShellSession,
    as_user,
    refusal,
    serving,
)

pytestmark = [pytest.mark.stress, pytest.mark.timeout(600)]

SESSIONS = 100
SETTLING = 5.0
"""Seconds in which what was killed may disappear."""
STRANGER = 1_600_000_000
"""A uid that no server hands out."""
GONE = (OSError, http.client.HTTPException, ShellServerError, ValueError)
"""What a client sees of a server that dies under it."""
DECOYS = ("ors-decoy", "ors-0123456789ab", "notes")
"""Folders without a server's lock, some of which are named as a server's would be."""
COMMANDS = (
    "echo $RANDOM",
    "setsid sleep 1000 >/dev/null 2>&1 & disown",
    "(trap '' HUP TERM INT; sleep 1000) & echo started",
    "head -c 200000 /dev/urandom > f$RANDOM; ls | wc -l",
    "sleep 0.2",
    "for i in 1 2 3 4 5; do (sleep 0.05 &); done; /bin/echo x",
)


def require(sandbox, uid):
    if os.geteuid() != 0:
        pytest.skip("needs root, which becomes another user")
    if reason := refusal(sandbox, uid):
        pytest.fail(reason)


def eventually_nothing(look: Callable[[], list[str]]) -> list[str]:
    """Looks until there is nothing, or for as long as dying may take."""
    deadline, pause = time.monotonic() + SETTLING, threading.Event()
    while (found := look()) and time.monotonic() < deadline:
        pause.wait(0.1)
    return found


# Killed at random moments


class Crowd:
    """Clients in threads of their own that play until their server is gone."""

    def __init__(self, server: ShellServer, seed: int) -> None:
        self.server, self.dice = server, random.Random(seed)  # noqa: S311 # for moments, not secrets
        self.is_over = threading.Event()
        self.opened = threading.Semaphore(0)
        self._threads: list[threading.Thread] = []
        self.complaints: list[str] = []

    def send(self, play: Callable[[ShellSession, random.Random], None]) -> None:
        dice = random.Random(self.dice.random())  # noqa: S311 # for moments, not secrets
        thread = threading.Thread(target=self._live, args=(play, dice), daemon=True)
        self._threads.append(thread)
        thread.start()

    def wait_for(self, count: int) -> None:
        """Waits until so many have their session."""
        for _ in range(count):
            assert self.opened.acquire(timeout=60.0), f"too few sessions: {self.complaints}"

    def end(self) -> None:
        """Waits until everyone has noticed."""
        self.is_over.set()
        for thread in self._threads:
            thread.join(60.0)
        assert not any(thread.is_alive() for thread in self._threads)

    def _live(self, play: Callable[[ShellSession, random.Random], None], dice: random.Random) -> None:
        session = ShellSession(self.server.port, "crowd")
        try:
            session.create()
            answer = session.bash("echo ready")
            if answer.stdout != "ready\n":
                self.complaints.append(answer.brief())
            self.opened.release()
            while not self.is_over.is_set():
                play(session, dice)
        except GONE as error:
            if not self.is_over.is_set():
                self.complaints.append(f"{type(error).__name__}: {error}")
        finally:
            session.close()


def run_commands(session, dice):
    session.bash(dice.choice(COMMANDS), 5.0)


def do_everything_else(session, dice):
    deed = dice.randrange(4)
    if deed == 0:
        session.ask_host("host_fresh", seconds=dice.random())
    elif deed == 1:
        session.ask_host("host_snapshot")
    elif deed == 2:
        session.call("bash", restart=True)
    else:
        session.close()
        session.create()
        session.bash("sleep 1000 &")


def kill_while_playing(server, seed):
    crowd = Crowd(server, seed)
    for _ in range(SESSIONS):
        crowd.send(run_commands)
    crowd.wait_for(SESSIONS)
    assert crowd.complaints == []
    strike(crowd, crowd.dice.uniform(0.5, 1.5))


def kill_while_starting(server, seed):
    crowd = Crowd(server, seed)
    for _ in range(SESSIONS):
        crowd.send(run_commands)
    crowd.wait_for(crowd.dice.randrange(1, SESSIONS // 2))
    strike(crowd, crowd.dice.uniform(0.0, 0.3))


def kill_while_forking_and_closing(server, seed):
    crowd = Crowd(server, seed)
    for _ in range(SESSIONS // 2):
        crowd.send(do_everything_else)
    crowd.wait_for(SESSIONS // 2)
    strike(crowd, crowd.dice.uniform(0.2, 2.0))


def strike(crowd, delay):
    threading.Event().wait(delay)
    crowd.is_over.set()
    crowd.server.kill()
    crowd.end()


@dataclass
class Bystanders:
    """What a janitor must not touch: it carries no mark, or somebody else's, or its owner lives."""

    server: ShellServer
    sessions: list[ShellSession]
    processes: list[subprocess.Popen[bytes]]
    paths: dict[Path, str]

    def harmed(self) -> list[str]:
        found = [
            f"{path} is gone or other"
            for path, said in self.paths.items()
            if not path.exists() or shell_traces.describe(path) != said
        ]
        found += [f"process {one.args!r} is gone" for one in self.processes if one.poll() is not None]
        for session in self.sessions:
            answer = session.bash("echo $KEPT; jobs -r | grep -c sleep; cat kept.txt")
            if answer.stdout != "variable\n1\nfile\n":
                found.append(f"a session of another server: {answer.brief()}")
        return found


@contextlib.contextmanager
def bystanders(sandbox: str, uid: int) -> Iterator[Bystanders]:
    """Sets up a second server with sessions, and processes, folders and groups that are nobody's."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(serving(sandbox, uid))
        sessions = [server.open("bystander") for _ in range(5)]
        for session in sessions:
            stack.callback(session.close)
            session.bash("export KEPT=variable; echo file > kept.txt; sleep 1000 &")
        processes = [subprocess.Popen(as_user(owner, ["sleep", "1000"])) for owner in (0, STRANGER, NOBODY)]
        for process in processes:
            stack.callback(process.wait)
            stack.callback(process.kill)
        paths = [path for name in DECOYS for path in make_folder(stack, server.base / name, uid)]
        paths += make_groups(stack) if uid == 0 else []
        yield Bystanders(server, sessions, processes, {path: shell_traces.describe(path) for path in paths})


def make_folder(stack: contextlib.ExitStack, folder: Path, uid: int) -> list[Path]:
    """Makes a folder with a file in it, of a user."""
    folder.mkdir()
    stack.callback(shutil.rmtree, folder, ignore_errors=True)
    (folder / "file").write_text("somebody's")
    for path in (folder, folder / "file"):
        os.chown(path, uid, uid)
    return [folder, folder / "file"]


def make_groups(stack: contextlib.ExitStack) -> list[Path]:
    """Makes cgroups that are named much like a server's, where sessions have theirs."""
    parents = [path for path in (shell_traces.CGROUPS / "pids", shell_traces.CGROUPS) if path.is_dir()]
    made = [parents[0] / f"ors-decoy-{secrets.token_hex(6)}", parents[0] / f"ors-{secrets.token_hex(6)}-s1"]
    for group in made:
        group.mkdir()
        stack.callback(group.rmdir)
    return made


def server_id(server):
    return server.folder.name.removeprefix("ors-")


def taken_blocks():
    """Returns the numbers of the blocks of uids that living servers hold, told by the locks on them."""
    inodes = {row.split()[5].rpartition(":")[2] for row in Path("/proc/locks").read_text().splitlines()}
    files = Path("/run/ors-server").glob("uids-*")
    return {int(path.name.removeprefix("uids-")) for path in files if str(path.stat().st_ino) in inodes}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kill", [kill_while_playing, kill_while_starting, kill_while_forking_and_closing])
@pytest.mark.parametrize(("sandbox", "uid"), [("bubblewrap", 0), ("bubblewrap", NOBODY), ("landlock", 0)])
def test_nothing_is_left_of_a_server_that_was_killed_and_nothing_else_is_touched(sandbox, uid, kill, seed):
    require(sandbox, uid)
    with bystanders(sandbox, uid) as others:
        with serving(sandbox, uid) as server:
            dead = server_id(server)
            assert shell_traces.everything(dead)  # what is looked for afterwards can be found
            kill(server, seed)
        with serving(sandbox, uid) as next_server:
            left = eventually_nothing(lambda: shell_traces.everything(dead))
            found = eventually_nothing(lambda: shell_traces.strangers(taken_blocks()))
            assert (left, found) == ([], [])
            assert others.harmed() == []
            last = server_id(next_server)
            session = next_server.open()
            assert session.bash("echo alive").stdout == "alive\n"
            session.close()
    assert eventually_nothing(lambda: shell_traces.everything(last)) == []


# Ten thousand in a row

AT_ONCE = 16
GROWTH = {
    "descriptors": 4,
    "memory": 24 << 20,
    "threads": 4,
    "processes": 0,
    "mounts": 0,
    "groups": 0,
    "folders": 0,
}
"""How much more there may be of each after the last batch than after the first; memory in bytes."""


def take_stock(server: ShellServer) -> dict[str, int]:
    """Counts what a server that has no sessions holds."""
    name = server_id(server)
    status = dict(
        line.split(":", 1) for line in read_proc(server.pid, "status").decode().splitlines() if ":" in line
    )
    return {
        "descriptors": len(list(Path(f"/proc/{server.pid}/fd").iterdir())),
        "memory": int(status["RssAnon"].split()[0]) << 10,
        "threads": int(status["Threads"]),
        "processes": len(shell_traces.processes(name, but=server.pid)),
        "mounts": len(shell_traces.mounts(name)) + read_proc(server.pid, "mountinfo").count(b"\n"),
        "groups": len(shell_traces.groups(name)),
        "folders": sum(1 for _ in server.folder.rglob("*")),
    }


def settled_stock(server: ShellServer) -> dict[str, int]:
    """Counts once everything that was killed has had time to disappear."""
    eventually_nothing(lambda: [*shell_traces.processes(server_id(server), but=server.pid)])
    return take_stock(server)


def use_one(server: ShellServer, number: int) -> str | None:
    """Creates a session, runs a command in it and closes it; says what was wrong."""
    session = ShellSession(server.port, f"soak-{number}")
    try:
        session.create()
        answer = session.bash(f"echo {number}; sleep 1000 &")
        return None if answer.stdout == f"{number}\n" else f"{number}: {answer.brief()}"
    except GONE as error:
        return f"{number}: {type(error).__name__}: {error}"
    finally:
        session.close()


@pytest.mark.parametrize(
    ("sandbox", "uid", "sessions", "batch"),
    [
        ("bubblewrap", 0, 10_000, 1_000),
        ("bubblewrap", NOBODY, 1_500, 500),
        ("landlock", 0, 1_500, 500),
    ],
)
def test_sessions_that_come_and_go_by_the_thousand_leave_the_server_as_it_was(sandbox, uid, sessions, batch):
    require(sandbox, uid)
    stocks = []
    with serving(sandbox, uid, {}, "--retain-episodes", "100") as server, ThreadPoolExecutor(AT_ONCE) as pool:
        for first in range(0, sessions, batch):
            began = time.monotonic()
            complaints = [
                one for one in pool.map(partial(use_one, server), range(first, first + batch)) if one
            ]
            assert complaints == []
            stocks.append(settled_stock(server))
            rate = batch / (time.monotonic() - began)
            sys.stdout.write(f"{first + batch} sessions, {rate:.0f} each second: {stocks[-1]}\n")
    grown = {what: stocks[-1][what] - stocks[0][what] for what in GROWTH}
    assert {what: amount for what, amount in grown.items() if amount > GROWTH[what]} == {}, stocks
