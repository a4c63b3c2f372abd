"""The persistent shell: one bash on a private terminal, spoken to by numbers, whatever isolates it.

One command is over when the shell says so on its terminal, never when a pipe ends, so background jobs cannot
hold a call. No wait in here is without a bound.
"""

import signal
from collections.abc import Callable
from dataclasses import dataclass

import anyio

from ors_server.clock import Clock
from ors_server.sandboxes.base import ExecResult, Killed, Limits
from ors_server.sandboxes.cell import Cell
from ors_server.sandboxes.congestion import Congestion
from ors_server.sandboxes.errors import SandboxCommandError, SandboxStartError
from ors_server.sandboxes.marks import Death, Mark, Prompt
from ors_server.sandboxes.pump import Pump
from ors_server.sandboxes.scripts import sync_line, typed_line
from ors_server.sandboxes.slate import Slate
from ors_server.sandboxes.streams import Background, CommandStreams
from ors_server.sandboxes.terminal import Terminal

_INTERRUPT_LIMIT = 0.4
_RUNG_LIMIT = 1.0
_SHOT_INTERVAL = 0.1
_LOOK_INTERVAL = 0.5
_PAUSES = (0.05, 0.25, 1.0)
"""Seconds before a launch over the same files is tried again."""
_SYNC_TRIES = 3


@dataclass
class _Verdict:
    """What ended a command, as far as it is known."""

    killed: Killed | None = None
    restarted: bool = False
    notes: tuple[str, ...] = ()

    def note(self, sentence: str) -> None:
        self.notes = (*self.notes, sentence)


class Shell:
    """The shell of one cell. Calls must not overlap; the sandbox makes them take turns."""

    def __init__(self, cell: Cell, clock: Clock) -> None:
        self._cell = cell
        self._clock = clock
        self._limits: Limits = cell.limits
        self._pump = Pump()
        self._terminal = Terminal(self._pump, self._on_mark, self._on_end)
        self._background = Background(self._limits.background_bytes)
        self._congestion = Congestion(cell, clock)
        self._command = Slate(str(cell.control / "cmd"))
        self._cwd = Slate(str(cell.control / "cwd"))
        self._pipes = str(cell.control / "io") + "/"
        self._news = anyio.Event()
        self._sequence = 0
        self._is_up = False
        self._is_gone = True
        self._is_news = False  # whether a new shell answers of which no result has told yet
        self._pid = 0
        self._finish: Prompt | None = None
        self._death: Death | None = None
        self._streams: CommandStreams | None = None
        self._free: CommandStreams | None = None  # pipes of an earlier command that nobody holds
        self.cwd = cell.layout.work

    async def start(self) -> None:
        """Launch the cell and wait for the shell.

        Raises:
            SandboxStartError: No shell answered in time.
        """
        self._launch()
        limit = self._cell.start_limit
        if not await self._until(lambda: self._is_up or self._is_gone, limit) or self._is_gone:
            said = self._terminal.remarks.strip()[-500:]
            await self._cell.kill()
            raise SandboxStartError(f"no shell answered (it has {limit:g} s); the sandbox said: {said!r}")
        await self._cell.settle()

    async def restart(self) -> None:
        """Kill every process and start a new shell in the work dir, without the old one's state.

        Raises:
            SandboxStartError: No shell answered in time.
        """
        await self._end()
        self._note_cwd(self._cell.layout.work)  # only now: a shell's last words name the old one
        await self._start_again()
        self._is_news = False

    async def run(self, command: str, time_limit: float) -> ExecResult:
        """Run one command.

        Args:
            command: What bash shall run.
            time_limit: Seconds.
        """
        data = _encode(command, self._limits.command_bytes)
        began = self._clock.monotonic()
        verdict = _Verdict()
        await self._bring_up()
        await self._attempt(data, time_limit, verdict)
        if self._never_began():
            self._drop_streams()
            verdict.note(
                "The shell could not open its pipes under limits of its own making; it was replaced."
            )
            await self._replace_shell()
            verdict.restarted = True
            await self._attempt(data, time_limit, verdict)
        return self._result(verdict, self._clock.monotonic() - began)

    def close(self) -> None:
        """Let go of terminal, pipes and files."""
        self._drop_streams()
        if self._free is not None:
            self._free.close()
        self._background.close()
        self._command.close()
        self._cwd.close()
        self._terminal.close()
        self._pump.close()

    # One command

    async def _attempt(self, data: bytes, time_limit: float, verdict: _Verdict) -> None:
        self._type(data)
        try:
            verdict.killed = await self._end_of_command(time_limit)
            if verdict.killed is not None:
                await self._end_job(verdict)
            elif self._death is not None or self._is_gone:
                self._explain_death(verdict)
            if await self._congestion.goes_on():
                verdict.note(f"More than {self._limits.pids} processes were wanted; all were killed.")
                verdict.killed = Killed.PROCESS_LIMIT
                await self._relaunch()
                verdict.restarted = True
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await self._end_job(verdict)
                self._drop_streams()
            raise

    def _type(self, data: bytes) -> None:
        self._sequence += 1
        self._finish = self._death = None
        self._command.write(data)
        streams, self._free = self._free, None
        if streams is None:
            streams = CommandStreams.make(self._pump, self._pipes, self._sequence, self._cell.owner)
        streams.begin(self._limits, self._on_data)
        self._streams = streams
        self._terminal.type(typed_line(self._cell.layout, self._sequence, streams.number))

    async def _end_of_command(self, time_limit: float) -> Killed | None:
        deadline = self._clock.monotonic() + time_limit
        self._congestion.begin()
        while True:
            left = deadline - self._clock.monotonic()
            if await self._until(self._is_over, min(_LOOK_INTERVAL, left)):
                return None if self._has_ended() else Killed.OUTPUT_LIMIT
            if self._congestion.persists():
                return Killed.PROCESS_LIMIT
            if self._clock.monotonic() >= deadline:
                return Killed.TIME_LIMIT

    def _explain_death(self, verdict: _Verdict) -> None:
        verdict.restarted = True
        if self._death is None:
            verdict.killed = Killed.SHELL_DIED
            verdict.note(
                "The sandbox's first process died; the sandbox was started anew over the same files."
            )
        else:
            verdict.note("The shell ended and was started again.")

    def _never_began(self) -> bool:
        streams, finish = self._streams, self._finish
        if streams is None or finish is None or finish.status == 0:
            return False
        streams.stdout.finish()
        return not streams.stdout.was_opened

    def _result(self, verdict: _Verdict, duration: float) -> ExecResult:
        streams = self._streams
        if streams is None:
            raise AssertionError("a command without pipes")
        for intake in streams.both:
            intake.finish()
        ended = self._finish or self._death
        late = self._background.take()
        result = ExecResult(
            exit_code=ended.status if ended is not None else None,
            stdout=streams.stdout.output(),
            stderr=streams.stderr.output(),
            cwd=self.cwd,
            duration_s=duration,
            killed=verdict.killed,
            shell_restarted=verdict.restarted or self._is_news,
            background=late,
            notes=verdict.notes,
        )
        self._streams = None
        self._is_news = False
        self._free = self._background.adopt(streams)
        return result

    # The interrupt ladder

    async def _end_job(self, verdict: _Verdict) -> None:
        """Get the shell back, by the gentlest means that works; every rung has its bound."""
        if verdict.killed is Killed.PROCESS_LIMIT:
            verdict.note(f"More than {self._limits.pids} processes were wanted; all were killed.")
            self._congestion.forgive()
            await self._relaunch()
            verdict.restarted = True
            return
        for rung in (self._interrupt, self._shoot):
            if await rung():
                verdict.restarted = verdict.restarted or self._finish is None
                return
        verdict.restarted = True
        for number in (signal.SIGHUP, signal.SIGKILL):
            if await self._signal_shell(number):
                verdict.note("The shell did not let go of the command and was replaced.")
                return
        verdict.note("The sandbox was started anew over the same files; background jobs are gone.")
        await self._relaunch()

    async def _interrupt(self) -> bool:
        self._terminal.interrupt()
        return await self._until(self._has_ended, _INTERRUPT_LIMIT) and await self._in_step()

    async def _shoot(self) -> bool:
        """Kill the foreground job again and again, since a loop starts the next one at once."""
        shell = self._cell.shell(self._pid)
        deadline = self._clock.monotonic() + _RUNG_LIMIT
        while self._clock.monotonic() < deadline:
            group = self._terminal.foreground_group()
            if group and group != shell:
                self._cell.signal_group(group, signal.SIGKILL)
            self._terminal.interrupt()
            if await self._until(self._has_ended, _SHOT_INTERVAL):
                return await self._in_step()
        return False

    async def _signal_shell(self, number: signal.Signals) -> bool:
        """Signal the shell itself, and wait for the next one."""
        shell = self._cell.shell(self._pid)
        if shell is None or not self._cell.signal_group(shell, number):
            return False
        if not await self._until(lambda: self._death is not None or self._is_gone, _RUNG_LIMIT):
            return False
        return await self._until(lambda: self._is_up, _RUNG_LIMIT)

    async def _in_step(self) -> bool:
        """After a ^C: make sure that none is left over to hit the next command."""
        if self._finish is None:
            return await self._until(lambda: self._is_up, self._cell.start_limit)
        finish = self._finish
        try:
            for _ in range(_SYNC_TRIES):
                self._sequence += 1
                self._finish = None
                self._terminal.type(sync_line(self._sequence))
                if await self._until(self._has_ended, _INTERRUPT_LIMIT):
                    return True
            return False
        finally:
            self._finish = finish

    async def _replace_shell(self) -> None:
        if not await self._signal_shell(signal.SIGKILL):
            await self._relaunch()

    # The shell's life

    async def _bring_up(self) -> None:
        """Have a shell that listens."""
        if not self._is_gone:
            await self._until(lambda: self._is_up or self._is_gone, self._cell.start_limit)
        if self._is_gone or not self._is_up:
            self._is_news = True
            await self._relaunch()

    async def _relaunch(self) -> None:
        await self._end()
        await self._start_again()

    async def _start_again(self) -> None:
        """Start over the same files, patiently: the dead count against limits until the kernel is done."""
        for pause in _PAUSES:
            try:
                await self.start()
                return
            except SandboxStartError:
                await self._end()
                await self._clock.sleep(pause)
        await self.start()

    async def _end(self) -> None:
        await self._cell.kill()
        self._terminal.close()

    def _launch(self) -> None:
        self._is_up = self._is_gone = False
        slave = self._terminal.open()
        self._cell.launch(slave)

    # News

    def _on_mark(self, mark: Mark) -> None:
        if isinstance(mark, Death):
            self._death = mark
            self._is_up = False
            self._is_news = True
        else:
            self._pid = mark.shell_pid
            self._note_cwd(mark.cwd)
            if mark.sequence == 0:
                self._is_up = True
            elif mark.sequence == self._sequence:
                self._finish = mark
        self._news.set()

    def _on_end(self) -> None:
        self._is_gone = True
        self._is_up = False
        self._news.set()

    def _on_data(self) -> None:
        if self._is_flooded():
            self._news.set()

    def _note_cwd(self, cwd: str) -> None:
        if cwd != self.cwd:
            self.cwd = cwd
            kept = cwd + "/"  # the shell's $(<file) drops newlines at the end, which a name may have
            self._cwd.write(kept.encode(errors="surrogateescape"))

    def _has_ended(self) -> bool:
        return self._finish is not None or self._death is not None or self._is_gone

    def _is_flooded(self) -> bool:
        return self._streams is not None and self._streams.largest > self._limits.output_bytes

    def _is_over(self) -> bool:
        return self._has_ended() or self._is_flooded()

    def _drop_streams(self) -> None:
        if self._streams is not None:
            self._streams.close()
            self._streams = None

    async def _until(self, is_so: Callable[[], bool], seconds: float) -> bool:
        if is_so():
            return True
        with anyio.move_on_after(max(0.0, seconds)):
            while not is_so():
                self._news = anyio.Event()
                await self._news.wait()
            return True
        return is_so()


def _encode(command: str, most: int) -> bytes:
    if "\0" in command:
        raise SandboxCommandError("a command must not hold a NUL character")
    try:
        data = command.encode()
    except UnicodeEncodeError:
        raise SandboxCommandError(
            "a command must be text that UTF-8 can carry; it holds a lone surrogate"
        ) from None
    if len(data) > most:
        raise SandboxCommandError(f"a command may have {most} bytes; this one has {len(data)}")
    return data
