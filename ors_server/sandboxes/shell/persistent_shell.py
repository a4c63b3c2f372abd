"""The persistent shell: one bash on a private terminal, controlled by numbered commands, over any cell.

Invariants:

- A command is over when the shell prints its mark on the terminal, not when a pipe ends, so background jobs
  cannot block a call.
- Every typed line has a new sequence number, and only the mark with the current number ends a command: a late
  mark of an earlier line only updates the working directory.
- The terminal carries control and no output. Commands travel in a file and print to named pipes, so what they
  contain or print is not read as control.
- Every wait is bounded, and a stop that does not work is followed by a harder one: ^C, SIGKILL to the
  foreground job, the shell's own end, a new sandbox over the same files.
- A shell may fail to start because of the machine (retry, then raise) or because the agent broke a start-up
  file. Starting the system's /bin/sh tells which. Waiting for a shell is part of a command's time.
- A new shell that no caller requested is reported exactly once, by the first result after it
  (`_has_unreported_restart`).
"""

import contextlib
import errno
import fcntl
import os
import signal
import struct
import termios
from collections.abc import Callable
from dataclasses import dataclass

import anyio

from ors_server.model.clock import Clock
from ors_server.sandboxes.base import ExecResult, Killed, Limits
from ors_server.sandboxes.captured_output import Output
from ors_server.sandboxes.cells.cell import Cell
from ors_server.sandboxes.fresh import FreshProgram
from ors_server.sandboxes.poller import Poller
from ors_server.sandboxes.sandbox_errors import (
    SandboxCommandError,
    SandboxError,
    SandboxShellError,
    SandboxStartError,
)
from ors_server.sandboxes.shell.command_pipes import BackgroundOutput, CommandStreams
from ors_server.sandboxes.shell.process_limit import ProcessLimitMonitor
from ors_server.sandboxes.shell.shell_marks import ExitMark, Mark, MarkParser, PromptMark
from ors_server.sandboxes.shell_scripts import sync_line, typed_line


class ControlFile:
    """A control file that stays open and is overwritten in place.

    ext4 flushes a truncated and rewritten file when it is closed, which would cost more than the rest of a
    command.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor = -1
        self._length = 0

    def write(self, data: bytes) -> None:
        """Replace the whole content."""
        if self._descriptor < 0:
            flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            self._descriptor = os.open(self._path, flags, 0o644)
            self._length = os.fstat(self._descriptor).st_size
        done = 0
        while done < len(data):
            done += os.pwrite(self._descriptor, data[done:] if done else data, done)
        if len(data) < self._length:
            os.ftruncate(self._descriptor, len(data))
        self._length = len(data)

    def close(self) -> None:
        """Close the file; a second call does nothing, and a later `write` opens it again."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


_READ_BYTES = 65_536
_INTERRUPT = b"\x03"


class ShellTerminal:
    """The server's end of a pseudo-terminal."""

    def __init__(
        self, poller: Poller, on_mark: Callable[[Mark], None], on_closed: Callable[[], None]
    ) -> None:
        self._poller = poller
        self._on_mark = on_mark
        self._on_closed = on_closed
        self._reader = MarkParser()
        self._master = -1

    @property
    def other_output(self) -> str:
        """Recent output of the shell other than its marks."""
        return self._reader.other_output

    def open(self) -> int:
        """Open a new pair."""
        master, slave = os.openpty()
        os.set_blocking(master, False)
        _make_plain(slave)
        self._reader = MarkParser()
        self._master = master
        self._poller.watch(master, self._on_ready)
        return slave

    def type(self, line: bytes) -> None:
        """Type a line; one that does not fit into the terminal is lost, and its mark never comes."""
        with contextlib.suppress(OSError):
            os.write(self._master, line)

    def interrupt(self) -> None:
        """Type ^C: SIGINT to exactly the foreground job."""
        self.type(_INTERRUPT)

    def foreground_group(self) -> int:
        """Return the foreground process group on the host; 0 if the terminal does not have one."""
        try:
            packed = fcntl.ioctl(self._master, termios.TIOCGPGRP, b"\0\0\0\0")
        except OSError:
            return 0
        return int(struct.unpack("i", packed)[0])

    def close(self) -> None:
        """Hang up; a second call does nothing."""
        if self._master >= 0:
            self._poller.unwatch(self._master)
            os.close(self._master)
            self._master = -1

    def _on_ready(self, _events: int) -> None:
        try:
            piece = os.read(self._master, _READ_BYTES)
        except OSError as error:
            # Any other error is the end: a terminal without processes gives EIO (Linux), not an empty read.
            if error.errno in {errno.EAGAIN, errno.EINTR}:
                return
            piece = b""
        if not piece:
            self.close()
            self._on_closed()
            return
        for mark in self._reader.feed(piece):
            self._on_mark(mark)


def _make_plain(slave: int) -> None:
    """Switch off echo and output processing; keep lines and ^C, which must not discard typed input."""
    settings = termios.tcgetattr(slave)
    settings[0] &= ~(termios.IXON | termios.ICRNL)
    settings[1] &= ~termios.OPOST
    settings[3] &= ~(termios.ECHO | termios.ECHOE | termios.ECHOK | termios.ECHONL)
    settings[3] |= termios.ICANON | termios.ISIG | termios.NOFLSH
    termios.tcsetattr(slave, termios.TCSANOW, settings)


_INTERRUPT_LIMIT = 0.4
_ATTEMPT_LIMIT = 1.0
_KILL_INTERVAL = 0.1
_LOOK_INTERVAL = 0.5
_PAUSES = (0.05, 0.25, 1.0)
"""Seconds before a launch over the same files is retried."""
_SYNC_TRIES = 3
_START_GRACE = 5.0
"""Seconds that a shell may take to start after its command's time limit."""
_MAX_EARLY_EXITS = 3
"""Shells that end before their first prompt; the init starts the next one at once, for ever."""


@dataclass
class _CommandOutcome:
    """How a command ended, as far as it is known."""

    killed: Killed | None = None
    restarted: bool = False
    notes: tuple[str, ...] = ()

    def note(self, sentence: str) -> None:
        self.notes = (*self.notes, sentence)


class Shell:
    """The shell of one cell. Calls must not overlap; the sandbox serialises them."""

    def __init__(self, cell: Cell, clock: Clock) -> None:
        self._cell = cell
        self._clock = clock
        self._limits: Limits = cell.limits
        self._poller = Poller()
        self._terminal = ShellTerminal(self._poller, self._on_mark, self._on_closed)
        self._background = BackgroundOutput(self._limits.background_bytes)
        self._process_limit = ProcessLimitMonitor(cell, clock)
        self._command = ControlFile(str(cell.control / "cmd"))
        self._cwd = ControlFile(str(cell.control / "cwd"))
        self._pipes = str(cell.control / "io") + "/"
        self._changed = anyio.Event()
        self._sequence = 0
        self._is_up = False
        self._is_gone = True
        self._has_unreported_restart = False  # whether no result has reported the new shell yet
        self._has_lost_state = False  # whether the shell began without the state of the one before
        self._early_exits = 0  # shells in a row that ended before their first prompt
        self._start_deadline = 0.0
        self._is_launched = False  # whether the latest launch reached the session's own programs
        self._pid = 0
        self._prompt_mark: PromptMark | None = None
        self._exit_mark: ExitMark | None = None
        self._streams: CommandStreams | None = None
        self._free: CommandStreams | None = None  # pipes of an earlier command that no process holds
        self.cwd = cell.layout.work

    async def start(self) -> None:
        """Launch the cell and wait for the shell; `SandboxStartError` if no shell answered in time."""
        await self._start_within(self._cell.start_limit)

    async def _start_within(self, limit: float) -> None:
        self._is_up = self._is_gone = False
        self._early_exits = 0
        self._is_launched = False
        self._cell.launch(self._terminal.open())
        self._is_launched = True
        await self._wait_for_shell(limit)
        if not self._is_up:
            printed = self._terminal.other_output.strip()[-500:]
            await self._cell.kill()
            raise SandboxStartError(f"no shell answered within {limit:g} s; the sandbox printed: {printed!r}")
        await self._cell.finish_launch()

    async def restart(self) -> None:
        """Kill every process and start a new shell in the work dir, without the old one's state.

        Raises:
            SandboxShellError: No shell starts over what the agent has left.
            SandboxStartError: No shell answered in time.
        """
        await self.end_processes()
        self._start_deadline = self._clock.monotonic() + self._limits.time_limit
        await self._start_again()
        self._has_unreported_restart = False

    async def end_processes(self) -> None:
        """Kill every process; the next command starts a shell in the work dir, without the state of now."""
        await self._kill_cell()
        self._is_gone, self._is_up = True, False
        self._set_cwd(self._cell.layout.work)  # only now: the old shell's last mark names the old one

    async def run(self, command: str, time_limit: float) -> ExecResult:
        """Run one command, for at most `time_limit` seconds."""
        data = _encode(command, self._limits.command_bytes)
        began = self._clock.monotonic()
        outcome = _CommandOutcome()
        self._cell.was_used = True
        self._start_deadline = began + time_limit + _START_GRACE
        try:
            await self._ensure_running()
        except SandboxShellError as error:
            return ExecResult(
                exit_code=None,
                stdout=Output(),
                stderr=Output(),
                cwd=self.cwd,
                duration_s=self._clock.monotonic() - began,
                killed=Killed.SHELL_DIED,
                background=self._background.take(),
                notes=(f"The command did not run. {error}",),
            )
        await self._attempt(data, time_limit, outcome)
        # Such as after `ulimit -n 0`: the redirections of the typed line failed, so no process opened the
        # pipes. The command never ran, and running it again in another shell cannot repeat an effect.
        if self._never_began():
            self._drop_streams()
            outcome.note(
                "The shell could not open its pipes under limits that it had set itself; it was replaced."
            )
            if not await self._signal_shell(signal.SIGKILL):
                await self._relaunch(outcome)
            outcome.restarted = True
            await self._attempt(data, time_limit, outcome)
        duration = self._clock.monotonic() - began
        if (outcome.restarted or self._has_unreported_restart) and not self._is_up:
            # Only the new shell knows whether it has the old one's state.
            await self._wait_for_shell(self._start_limit())
        return self._result(outcome, duration)

    def close(self) -> None:
        """Close terminal, pipes and files."""
        self._drop_streams()
        if self._free is not None:
            self._free.close()
        self._background.close()
        self._command.close()
        self._cwd.close()
        self._terminal.close()
        self._poller.close()

    # One command

    async def _attempt(self, data: bytes, time_limit: float, outcome: _CommandOutcome) -> None:
        if await self._process_limit.is_being_filled():
            await self._renew_full_session(outcome)
        self._type(data)
        try:
            outcome.killed = await self._wait_for_command(time_limit)
            if outcome.killed is not None:
                await self._stop_job(outcome)
            elif self._exit_mark is not None or self._is_gone:
                self._explain_exit(outcome)
            if await self._process_limit.is_still_exceeded():
                outcome.killed = Killed.PROCESS_LIMIT
                await self._renew_full_session(outcome)
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await self._stop_job(outcome)
                self._drop_streams()
            raise

    def _type(self, data: bytes) -> None:
        self._sequence += 1
        self._prompt_mark = self._exit_mark = None
        self._command.write(data)
        # Pipes are reused when no process holds them, which saves creating two files for every command.
        streams, self._free = self._free, None
        if streams is None:
            streams = CommandStreams.make(self._poller, self._pipes, self._sequence, self._cell.uid)
        streams.begin(self._limits, self._on_data)
        self._streams = streams
        self._terminal.type(typed_line(self._cell.layout, self._sequence, streams.number))

    async def _wait_for_command(self, time_limit: float) -> Killed | None:
        deadline = self._clock.monotonic() + time_limit
        self._process_limit.begin()
        while True:
            # Woken at least twice a second: a session that is stuck at its process limit prints nothing.
            left = deadline - self._clock.monotonic()
            if await self._wait_until(self._is_over, min(_LOOK_INTERVAL, left)):
                return None if self._has_ended() else Killed.OUTPUT_LIMIT
            if self._process_limit.is_stuck():
                return Killed.PROCESS_LIMIT
            if self._clock.monotonic() >= deadline:
                return Killed.TIME_LIMIT

    def _explain_exit(self, outcome: _CommandOutcome) -> None:
        outcome.restarted = True
        if self._exit_mark is None:
            outcome.killed = Killed.SHELL_DIED
            outcome.note("The sandbox's first process died; the sandbox was restarted over the same files.")
        else:
            outcome.note("The shell ended and was started again.")

    def _never_began(self) -> bool:
        streams, prompt_mark = self._streams, self._prompt_mark
        # A failed redirection has a status above 0; checking that first saves the reads for all other
        # commands.
        if streams is None or prompt_mark is None or prompt_mark.status == 0:
            return False
        streams.stdout.finish()
        return not streams.stdout.was_opened

    def _result(self, outcome: _CommandOutcome, duration: float) -> ExecResult:
        streams = self._streams
        if streams is None:
            raise AssertionError("a command without pipes")
        for reader in streams.both:
            reader.finish()
        mark = self._prompt_mark or self._exit_mark
        is_new = outcome.restarted or self._has_unreported_restart
        late = self._background.take()
        result = ExecResult(
            exit_code=mark.status if mark is not None else None,
            stdout=streams.stdout.output(),
            stderr=streams.stderr.output(),
            cwd=self.cwd,
            duration_s=duration,
            killed=outcome.killed,
            shell_restarted=is_new,
            state_lost=is_new and (self._has_lost_state or not self._is_up),
            background=late,
            notes=outcome.notes,
        )
        self._streams = None
        self._has_unreported_restart = False
        self._free = self._background.keep_reading(streams)
        return result

    # From ^C to a new sandbox

    async def _stop_job(self, outcome: _CommandOutcome) -> None:
        """Get the shell back by the gentlest means that works; each attempt is bounded."""
        if outcome.killed is Killed.PROCESS_LIMIT:
            await self._renew_full_session(outcome)
            return
        for attempt in (self._interrupt, self._kill_foreground):
            if await attempt():
                # An end without the command's own mark means that the shell itself went, and the init started
                # another.
                outcome.restarted = outcome.restarted or self._prompt_mark is None
                return
        outcome.restarted = True
        for number in (signal.SIGHUP, signal.SIGKILL):
            if await self._signal_shell(number):
                outcome.note("The command could not be interrupted, so the shell was replaced.")
                return
        outcome.note("The sandbox was restarted over the same files; background jobs are gone.")
        await self._relaunch(outcome)

    async def _renew_full_session(self, outcome: _CommandOutcome) -> None:
        outcome.note(
            f"The limit of {self._limits.pids} processes was exceeded, so all processes were killed."
        )
        await self._relaunch(outcome)
        self._process_limit.reset()
        outcome.restarted = True

    async def _interrupt(self) -> bool:
        self._terminal.interrupt()
        return await self._wait_until(self._has_ended, _INTERRUPT_LIMIT) and await self._resynchronise()

    async def _kill_foreground(self) -> bool:
        """Kill the foreground job repeatedly, because a loop starts the next one at once."""
        shell = self._cell.shell(self._pid)
        deadline = self._clock.monotonic() + _ATTEMPT_LIMIT
        while self._clock.monotonic() < deadline:
            group = self._terminal.foreground_group()
            # At its prompt the shell itself is in the foreground; it must survive this attempt.
            if group and group != shell:
                self._cell.signal_group(group, signal.SIGKILL)
            self._terminal.interrupt()
            if await self._wait_until(self._has_ended, _KILL_INTERVAL):
                return await self._resynchronise()
        return False

    async def _signal_shell(self, number: signal.Signals) -> bool:
        """Signal the shell itself, and wait for the next one."""
        shell = self._cell.shell(self._pid)
        if shell is None or not self._cell.signal_group(shell, number):
            return False
        if not await self._wait_until(lambda: self._exit_mark is not None or self._is_gone, _ATTEMPT_LIMIT):
            return False
        return await self._wait_until(lambda: self._is_up, _ATTEMPT_LIMIT)

    async def _resynchronise(self) -> bool:
        """Drain pending interrupts, so that none reaches the next command."""
        if self._prompt_mark is None:
            return await self._wait_until(lambda: self._is_up, self._start_limit())
        # The marks of these lines replace the command's own mark, which holds its status.
        command_mark = self._prompt_mark
        try:
            for _ in range(_SYNC_TRIES):
                self._sequence += 1
                self._prompt_mark = None
                self._terminal.type(sync_line(self._sequence))
                if await self._wait_until(self._has_ended, _INTERRUPT_LIMIT):
                    return True
            return False
        finally:
            self._prompt_mark = command_mark

    # The shell's life

    async def _ensure_running(self) -> None:
        if not self._is_gone:
            await self._wait_for_shell(self._start_limit())
        if self._is_gone or not self._is_up:
            self._has_unreported_restart = True
            await self._kill_cell()
            await self._start_again()

    async def _relaunch(self, outcome: _CommandOutcome) -> None:
        """Start again for a command that has run; without a shell, the next command says why."""
        await self._kill_cell()
        try:
            await self._start_again()
        except SandboxShellError as error:
            outcome.note(str(error))

    async def _start_again(self) -> None:
        """Start over the same files, with retries: dead processes count against limits for a while."""
        self._start_deadline = max(self._start_deadline, self._clock.monotonic() + _START_GRACE)
        for pause in (*_PAUSES, None):
            began, limit = self._clock.monotonic(), self._start_limit()
            try:
                await self._start_within(limit)
                return
            except SandboxStartError:
                printed = self._terminal.other_output.strip()[-200:]
                is_late = self._clock.monotonic() - began >= limit
                is_silent = self._is_launched and not self._is_up and self._cell.was_used
                await self._kill_cell()
                if is_silent and (is_late or pause is None) and await self._can_start_control():
                    raise SandboxShellError(
                        "No shell starts over the files of this session, though another program does: look "
                        "at what a shell reads at its start, such as /etc/bash.bashrc, and at /bin/bash. "
                        f"It printed: {printed!r}"
                    ) from None
                if pause is None:
                    raise
                if is_late:
                    # The machine is too slow, so the shell gets the time of a session's start.
                    self._start_deadline = self._clock.monotonic() + self._cell.start_limit
                await self._clock.sleep(pause)

    def _start_limit(self) -> float:
        return min(self._cell.start_limit, max(0.0, self._start_deadline - self._clock.monotonic()))

    async def _can_start_control(self) -> bool:
        """Return whether the machine starts a program over the same files, with the system's own shell."""
        try:
            with anyio.move_on_after(_START_GRACE):
                process = await self._cell.start_fresh(FreshProgram(("/bin/sh", "-c", ":")))
                try:
                    return await process.wait() == 0
                finally:
                    await process.aclose()
        except (OSError, SandboxError):
            pass
        return False

    async def _wait_for_shell(self, limit: float) -> None:
        """Wait until the shell is up, or cannot be."""
        await self._wait_until(
            lambda: self._is_up or self._is_gone or self._early_exits >= _MAX_EARLY_EXITS, limit
        )

    async def _kill_cell(self) -> None:
        await self._cell.kill()
        self._terminal.close()

    def _on_mark(self, mark: Mark) -> None:
        if isinstance(mark, ExitMark):
            self._exit_mark = mark
            self._early_exits += not self._is_up
            self._is_up = False
            self._has_unreported_restart = True
        else:
            self._pid = mark.shell_pid
            self._set_cwd(mark.cwd)
            if mark.sequence == 0:
                self._is_up = True
                self._early_exits = 0
                self._has_lost_state = mark.status != 0
            elif mark.sequence == self._sequence:
                self._prompt_mark = mark
        self._changed.set()

    def _on_closed(self) -> None:
        self._is_gone = True
        self._is_up = False
        self._changed.set()

    def _on_data(self) -> None:
        if self._is_flooded():
            self._changed.set()

    def _set_cwd(self, cwd: str) -> None:
        if cwd != self.cwd:
            self.cwd = cwd
            terminated = cwd + "/"  # the shell's $(<file) drops newlines at the end, which a name may have
            self._cwd.write(terminated.encode(errors="surrogateescape"))

    def _has_ended(self) -> bool:
        return self._prompt_mark is not None or self._exit_mark is not None or self._is_gone

    def _is_flooded(self) -> bool:
        return self._streams is not None and self._streams.largest > self._limits.output_bytes

    def _is_over(self) -> bool:
        return self._has_ended() or self._is_flooded()

    def _drop_streams(self) -> None:
        if self._streams is not None:
            self._streams.close()
            self._streams = None

    async def _wait_until(self, condition: Callable[[], bool], seconds: float) -> bool:
        if condition():
            return True
        with anyio.move_on_after(max(0.0, seconds)):
            while not condition():
                # No wait between the check and the new event, so no change is missed.
                self._changed = anyio.Event()
                await self._changed.wait()
            return True
        return condition()


def _encode(command: str, max_bytes: int) -> bytes:
    if "\0" in command:
        raise SandboxCommandError("a command must not hold a NUL character")
    try:
        data = command.encode()
    except UnicodeEncodeError:
        raise SandboxCommandError(
            "a command must be valid Unicode text; this one holds a lone surrogate"
        ) from None
    if len(data) > max_bytes:
        raise SandboxCommandError(f"the command is {len(data)} bytes long; the limit is {max_bytes}")
    return data
