"""The persistent interpreter: three small programs in one file; the first argument selects one.

- `client FOLDER` runs for one call, in the foreground of the session's shell. It sends the code and its own
  standard streams to the keeper, and waits.
- `keep FOLDER WORK_DIR` runs in the background. It starts the evaluator, enforces time limits, kills and
  replaces it if necessary, and writes a report to the folder; it runs no code of the agent's.
- `evaluate CHANNEL` holds the variables and runs the code. Between calls it keeps the streams of the last
  call, so that its threads' output counts as a background job's.

An agent that damages the folder or the sockets only breaks its own interpreter.
"""

import ast
import base64
import contextlib
import json
import linecache
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import time
import traceback
import types
import typing

_GRACE = 2.0
_GRACE_LEFT = 0.2
_BACKSTOP = 3.0
_END = 2.0
_LOOK_INTERVAL = 30.0
_HEADER = struct.Struct("!Q")
_CLIENT_LEFT = "the caller left"
_TIME_LIMIT = "time limit"
_AWAITS = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
_IS_COROUTINE = 0x80  # inspect.CO_COROUTINE, without the import of inspect
_loops: list[typing.Any] = []


def send(peer: socket.socket, message: dict[str, object], descriptors: tuple[int, ...] = ()) -> None:
    """Send a message, and copies of descriptors with it."""
    body = json.dumps(message).encode()
    if descriptors:
        socket.send_fds(peer, [_HEADER.pack(len(body))], descriptors)
    else:
        peer.sendall(_HEADER.pack(len(body)))
    peer.sendall(body)


def receive(peer: socket.socket) -> tuple[dict[str, object], list[int]]:
    """Receive what `send` sent; raises `EOFError` if the other end is gone."""
    header, descriptors, _, _ = socket.recv_fds(peer, _HEADER.size, 2, socket.MSG_CMSG_CLOEXEC)
    if len(header) < _HEADER.size:
        raise EOFError
    body = bytearray()
    (length,) = _HEADER.unpack(header)
    while len(body) < length:
        piece = peer.recv(min(length - len(body), 1 << 20))
        if not piece:
            raise EOFError
        body += piece
    message: dict[str, object] = json.loads(body)
    return message, list(descriptors)


# The client


def be_client(folder: str) -> None:
    """Send the code from standard input (base64 of JSON) to the keeper, and wait for its end."""
    request = json.loads(base64.b64decode(sys.stdin.buffer.read()))
    os.chdir(folder)
    peer = socket.socket(socket.AF_UNIX)
    try:
        peer.connect("socket")
    except OSError:
        leave_absence(request["id"])
        return
    try:
        send(peer, request, (1, 2))
        receive(peer)
    except KeyboardInterrupt:
        peer.close()  # the keeper interrupts the code, kills it if necessary, and reports
    except (OSError, EOFError):
        leave_absence(request["id"])


def leave_absence(request_id: object) -> None:
    """Report that no keeper answers, and whether an older report shows that there was one."""
    was_there = os.path.exists("report")
    leave_report({"id": request_id, "absent": True, "was_there": was_there})


def leave_report(report: dict[str, object]) -> None:
    """Write the report, whole or not at all."""
    with open("report.new", "w", encoding="utf-8") as file:
        json.dump(report, file)
    os.replace("report.new", "report")


# The keeper


def keep(folder: str, work_dir: str) -> None:
    """Run in the background; returns in the foreground once clients can connect."""
    os.chdir(folder)
    listener = listen()
    socket_status = os.stat("socket")
    if os.fork():
        return
    # Out of the shell's job control: ^C for a command must not reach the keeper.
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    evaluator = EvaluatorProcess(work_dir, os.path.join(folder, os.path.basename(__file__)))
    while True:
        try:
            peer, _ = listener.accept()
        except TimeoutError:
            if not is_reachable(socket_status):
                evaluator.kill()
                os._exit(0)
            continue
        with peer, contextlib.suppress(OSError, EOFError, ValueError, KeyError):
            peer.settimeout(5.0)
            request, descriptors = receive(peer)
            try:
                answer = evaluator.run(peer, request, descriptors)
            finally:
                for descriptor in descriptors:
                    os.close(descriptor)
            leave_report({**answer, "id": request["id"]})
            send(peer, answer)


def listen() -> socket.socket:
    """Return a new socket in the current folder."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink("socket")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind("socket")
    listener.listen()
    listener.settimeout(_LOOK_INTERVAL)
    return listener


def is_reachable(socket_status: os.stat_result) -> bool:
    """Return whether the socket can still be reached; otherwise the keeper ends."""
    try:
        return os.path.samestat(os.stat("socket"), socket_status)
    except OSError:
        return False


class EvaluatorProcess:
    """The process that holds the variables, and its successors."""

    def __init__(self, work_dir: str, program: str) -> None:
        self._work_dir = work_dir
        self._program = program
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None

    def run(self, client: socket.socket, request: dict[str, object], streams: list[int]) -> dict[str, object]:
        """Run code to its end or its limit.

        Args:
            client: Closed when the call is cancelled.
            request: `code`, `time_limit` in seconds, `restart`.
            streams: Standard output and standard error of the code.
        """
        lost = None
        if request["restart"]:
            self.kill()
        elif self._process is not None and self._process.poll() is not None:
            lost = self.kill()
        channel = self._channel or self.start()
        with contextlib.suppress(OSError):  # a dead evaluator is noticed below
            send(channel, {"code": request["code"]}, tuple(streams))
        answer = self._await(client, channel, float(str(request["time_limit"])))
        return {"lost": lost, **answer}

    def start(self) -> socket.socket:
        """Start a process with no variables yet."""
        ours, child_end = socket.socketpair()
        with child_end:
            self._process = subprocess.Popen(  # noqa: S603  (this program, once more)
                [sys.executable, "-u", self._program, "evaluate", str(child_end.fileno())],
                cwd=self._work_dir,
                pass_fds=[child_end.fileno()],
                start_new_session=True,
            )
        self._channel = ours
        return ours

    def kill(self) -> int:
        """End the process and what it started in its group; return its status as a shell would."""
        process, channel = self._process, self._channel
        self._process = self._channel = None
        if channel is not None:
            channel.close()
        if process is None:
            return 0
        status = process.poll()
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        ended = process.wait() if status is None else status
        return ended if ended >= 0 else 128 - ended

    def _await(self, client: socket.socket, channel: socket.socket, limit: float) -> dict[str, object]:
        deadline = time.monotonic() + limit
        why = None
        before = patience = 0.0
        watched = [channel, client]
        while True:
            ready = select.select(watched, [], [], max(0.0, deadline - time.monotonic()))[0]
            if channel in ready:
                return {**self._answer(channel), "why": why}
            if client in ready:
                watched.remove(client)
            # On a busy machine the process may not have run since the interrupt: the time for which it waited
            # for a processor is added, up to a backstop.
            if why is not None and not ready:
                deadline = patience + min(self._delay() - before, _BACKSTOP)
                if time.monotonic() < deadline:
                    continue
                self.kill()
                return {"status": 128 + signal.SIGKILL, "why": why, "replaced": True, "cwd": ""}
            if why is None:
                why = _CLIENT_LEFT if client in ready else _TIME_LIMIT
                before = self._delay()
                patience = deadline = time.monotonic() + (_GRACE_LEFT if client in ready else _GRACE)
                if self._process is not None:
                    self._process.send_signal(signal.SIGINT)

    def _delay(self) -> float:
        """Return the seconds that the process waited for a processor; 0 where that is not counted."""
        pid = 0 if self._process is None else self._process.pid
        with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/schedstat") as file:
            return int(file.read().split()[1]) / 1e9
        return 0.0

    def _answer(self, channel: socket.socket) -> dict[str, object]:
        try:
            answer = receive(channel)[0]
        except (OSError, EOFError, ValueError):
            return {"status": self._wait_for_end(), "replaced": True, "crashed": True, "cwd": ""}
        if answer["exited"]:
            self._wait_for_end()
        return {**answer, "replaced": answer["exited"]}

    def _wait_for_end(self) -> int:
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_END)
        return self.kill()


# The evaluator


def evaluate(descriptor: int) -> None:
    """Run pieces of code in order, until one of them exits."""
    channel = socket.socket(fileno=descriptor)
    channel.set_inheritable(False)
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    sys.argv = sys.path[:1] = [""]
    pid, number = os.getpid(), 0
    while True:
        signal.signal(signal.SIGINT, _ignore_interrupt)
        try:
            request, streams = receive(channel)
        except (OSError, EOFError):
            os._exit(0)
        number += 1
        _take_streams(streams)
        status, exited = run_code(str(request["code"]), f"<python-{number}>", module.__dict__)
        _flush()
        if os.getpid() != pid:
            os._exit(status)  # a child that the code forked
        try:
            send(channel, {"status": status, "exited": exited, "cwd": _cwd()})
        except OSError:
            os._exit(1)
        if exited:
            sys.exit(status)


def run_code(code: str, name: str, variables: dict[str, object]) -> tuple[int, bool]:
    """Run code; the value of a last expression is shown as the interactive interpreter shows it."""
    lines = code.splitlines(keepends=True)
    linecache.cache[name] = (len(code), None, lines, name)
    try:
        try:
            tree = ast.parse(code, name)
            last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
            signal.signal(signal.SIGINT, signal.default_int_handler)
            _execute(compile(tree, name, "exec", _AWAITS, dont_inherit=True), variables)
            if last is not None:
                _execute(
                    compile(ast.Interactive([last]), name, "single", _AWAITS, dont_inherit=True), variables
                )
        finally:
            signal.signal(signal.SIGINT, _ignore_interrupt)
    except SystemExit as leaving:
        return _exit_status(leaving.code), True
    except BaseException as error:  # noqa: BLE001  (any error is the code's)
        _show(error, name)
        return 128 + signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1, False
    return 0, False


def _execute(code: types.CodeType, variables: dict[str, object]) -> None:
    waiting = eval(code, variables)  # noqa: S307  (what it is for)
    if code.co_flags & _IS_COROUTINE:
        import asyncio  # noqa: PLC0415  (only code that awaits pays for it)

        _loops[:] = _loops or [asyncio.new_event_loop()]
        asyncio.set_event_loop(_loops[0])
        _loops[0].run_until_complete(waiting)


def _ignore_interrupt(_number: int, _frame: types.FrameType | None) -> None:
    """Ignore an interrupt while no code runs."""


def _take_streams(streams: list[int]) -> None:
    _flush()
    for number, descriptor in zip((1, 2), streams, strict=False):
        os.dup2(descriptor, number)
        os.close(descriptor)
    for name, number in (("stdout", 1), ("stderr", 2)):
        stream = getattr(sys, name)
        if stream is None or getattr(stream, "closed", False):
            setattr(sys, name, open(number, "w", encoding="utf-8", closefd=False, buffering=1))  # noqa: SIM115  (open as long as the interpreter)
        with contextlib.suppress(Exception):
            getattr(sys, name).reconfigure(encoding="utf-8", errors="backslashreplace", write_through=True)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()


def _exit_status(code: object) -> int:
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    with contextlib.suppress(Exception):
        sys.stderr.write(f"{code}\n")
    return 1


def _show(error: BaseException, name: str) -> None:
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename != name:
        frames = frames.tb_next
    with contextlib.suppress(BaseException):
        traceback.print_exception(type(error), error.with_traceback(frames), frames)


def _cwd() -> str:
    try:
        return os.getcwd()
    except OSError:
        return ""


if __name__ == "__main__":
    ROLE, *REST = sys.argv[1:]
    if ROLE == "client":
        be_client(REST[0])
    elif ROLE == "keep":
        keep(*REST)
    else:
        evaluate(int(REST[0]))
