"""The program that starts containers, as a separate process: docker-py blocks, and the server must not.

It reads its orders as JSON from the descriptor that its first argument names, and reports what happens, one
JSON object per line, on the descriptor that its second argument names. For a session's container it ends
once the server reports that the shell has answered; until then it keeps the terminal open. For a program it
stays, carries the three streams, and reports the status. If it ends early for any reason, even the end of
the server, it removes the containers that it made.
"""

import ctypes
import importlib
import json
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

_PIECE = 65_536
_ANSWER_LIMIT = 60
_FOLDERS_LIMIT = 30.0
_LOOK_INTERVAL = 0.005
_SET_PDEATHSIG = 1  # linux/prctl.h
_STDERR = 2  # Docker Engine API, "Attach to a container": the stream's type


class _StoppedError(Exception):
    """The server stops this launcher, or has ended itself."""


def _stop(_number: int, _frame: FrameType | None) -> None:
    raise _StoppedError


class Launcher:
    """Carries out the orders for one container."""

    def __init__(self, client: Any, orders: dict[str, Any], report: Callable[[dict[str, Any]], None]) -> None:
        self._client = client
        self._orders = orders
        self._report = report
        self._made: list[str] = []

    def launch_session(self) -> int:
        """Start a session's container, and before the first one the one that holds its files; return 0."""
        data = self._orders["data"]
        if data is None:
            data = self._launch_holder()
        container = self._create(self._orders["container"], self._orders["name"], data)
        pid = self._start(container)
        if not pid:
            raise RuntimeError("the container ended at once; its image must hold sh and bash")
        self._report({"init": pid})
        if self._is_handed_over(pid):
            self._made.clear()
        return 0

    def run_program(self) -> int:
        """Run a program to its end and return its status."""
        container = self._create(self._orders["container"], self._orders["name"], self._orders["data"])
        streams = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
        attached = self._client.attach_socket(container, params=streams)  # which docker-py only reads from
        link = socket.socket(fileno=os.dup(attached.fileno()))
        link.settimeout(None)
        if pid := self._start(container):
            self._report({"child-pid": pid})
        if self._orders["begins"] >= 0:
            os.close(self._orders["begins"])
        threading.Thread(target=_feed, args=(link,), daemon=True).start()
        # Pass on standard output and standard error until the container has closed both.
        frames = importlib.import_module("docker.utils.socket").frames_iter(link, tty=False)
        for stream, piece in frames:
            _write(2 if stream == _STDERR else 1, piece)
        for descriptor in (1, 2):
            os.close(descriptor)
        status = int(self._client.wait(container)["StatusCode"])
        self._report({"exit-code": status})
        return status

    def clean_up(self) -> None:
        """Remove the containers that are not handed over; called however it ends."""
        for container in reversed(self._made):
            try:
                self._client.remove_container(container, force=True, v=True)
            except Exception:  # noqa: BLE001, S112 # it is gone, or the server's own clean-up finds it
                continue

    def _launch_holder(self) -> str:
        container = self._create(self._orders["holder"], self._orders["name"] + "-files", None)
        pid = self._start(container)
        rows = self._client.inspect_container(container)["Mounts"]
        data = next(str(row["Source"]) for row in rows if row["Type"] == "volume")
        deadline = time.monotonic() + _FOLDERS_LIMIT
        while not os.path.exists(f"/proc/{pid}/root/data/state"):  # noqa: PTH110 # a start-up path
            if time.monotonic() > deadline or not os.path.exists(f"/proc/{pid}"):  # noqa: PTH110 # likewise
                raise RuntimeError("the folders of the session could not be made in its container")
            time.sleep(_LOOK_INTERVAL)
        self._report({"holder": pid, "data": data})
        return data

    def _create(self, config: dict[str, Any], name: str, data: str | None) -> str:
        for mount in config["HostConfig"]["Mounts"]:
            if data is not None and "Source" in mount:
                mount["Source"] = mount["Source"].replace("{data}", data)
        self._made.append(name)  # before it is there, so that an end meanwhile finds it
        return str(self._client.create_container_from_config(config, name=name)["Id"])

    def _start(self, container: str) -> int:
        """Return the first process's pid as the host sees it; 0 when it has ended already."""
        self._client.start(container)
        return int(self._client.inspect_container(container)["State"]["Pid"])

    def _is_handed_over(self, pid: int) -> bool:
        """Wait until the server reports that the shell has answered; return whether it did."""
        poll = select.poll()
        # Also the container's own end is waited for: no byte would ever come for a shell that died at once.
        go = int(self._orders["go"])
        poll.register(go, select.POLLIN)
        poll.register(os.pidfd_open(pid), select.POLLIN)
        ready = [descriptor for descriptor, _ in poll.poll()]
        return go in ready and os.read(go, 1) == b"+"


def _feed(link: Any) -> None:
    try:
        while piece := os.read(0, _PIECE):
            link.sendall(piece)
        link.shutdown(1)  # SHUT_WR
    except OSError:
        return  # the program does not read any more


def _write(descriptor: int, piece: bytes) -> None:
    view = memoryview(piece)
    try:
        while view:
            view = view[os.write(descriptor, view) :]
    except BrokenPipeError:
        return  # the reader has closed its end; the program keeps running


def main() -> int:
    """Read the orders and carry them out; return the exit status."""
    signal.signal(signal.SIGTERM, _stop)
    ctypes.CDLL(None).prctl(_SET_PDEATHSIG, signal.SIGTERM)
    with open(int(sys.argv[1]), encoding="utf-8") as orders_file:  # noqa: PTH123 # a descriptor
        orders = json.load(orders_file)
    status = int(sys.argv[2])

    def report(event: dict[str, Any]) -> None:
        if status >= 0:
            os.write(status, json.dumps(event).encode() + b"\n")

    docker = __import__("docker")
    client = docker.APIClient(base_url=orders["host"], version=orders["api"], timeout=_ANSWER_LIMIT)
    launcher = Launcher(client, orders, report)
    try:
        return launcher.launch_session() if "go" in orders else launcher.run_program()
    except _StoppedError:
        return 1
    except Exception as error:  # noqa: BLE001 # reported on the terminal or the pipe
        os.write(2, f"{getattr(error, 'explanation', None) or error}\n".encode(errors="replace"))
        return 1
    finally:
        # A second SIGTERM must not interrupt the removal.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        launcher.clean_up()


if __name__ == "__main__":
    os._exit(main())  # not waiting for a thread that may be reading
