"""`ors-server watch`: looks at a run until one of its alarms opens."""

from dataclasses import dataclass, field
from math import isfinite
from typing import TYPE_CHECKING, Annotated

import typer

from ors_server.cli.command_output import MisuseError, complain, say, say_json
from ors_server.cli.episodes_options import SourceOptions
from ors_server.cli.exit_status import ExitStatus
from ors_server.model.errors import OrsServerError, StoreError, first_of

if TYPE_CHECKING:
    from ors_server.alarms.alarm_rules import AlarmThresholds
    from ors_server.alarms.run_alarms import Alarm
    from ors_server.alarms.watched_runs import WatchedRun
    from ors_server.store.base import RecordReader

POLL_SECONDS = 2.0


@dataclass(frozen=True, kw_only=True)
class WatchOptions(SourceOptions):
    """Options of `watch`."""

    run: Annotated[str, typer.Option(metavar="NAME", help="The run: episodes whose label `run` is NAME.")]
    once: Annotated[bool, typer.Option("--once", help="Look at what is on record now, and end.")] = False
    idle: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="End with status 0 when no episode ended for so long.", min=0.1),
    ] = None
    success_at: Annotated[float, typer.Option(help="Return from which an episode is a success.")] = 1.0
    baseline: Annotated[
        str | None,
        typer.Option(metavar="RUN", help="Compare with the beginning of this run, not of NAME itself."),
    ] = None
    threshold: Annotated[
        list[str],
        typer.Option(
            metavar="NAME=NUMBER", help="Another threshold, such as dead_groups=0.7; may be repeated."
        ),
    ] = field(default_factory=list[str])
    ignore: Annotated[
        list[str],
        typer.Option(metavar="ALARM", help="Never end because of this alarm; may be repeated."),
    ] = field(default_factory=list[str])
    json: Annotated[bool, typer.Option("--json", help="Print one object per alarm.")] = False


def watch(options: WatchOptions) -> None:
    """Watch a run: print its alarms, and end with status 1 when the first one opens.

    A job that trains on the run can stop then. The status is 2 if the record cannot be read; a server that
    does not answer for a while is asked again. An alarm proves nothing: it says what to look at, with its
    formula, its value and some episodes.
    """
    import anyio

    from ors_server.cli.episodes_source import open_source

    thresholds = _read_thresholds(options)

    async def run() -> bool:
        async with open_source(options) as record:
            return await _watch(record, options, thresholds)

    try:
        has_alarm = anyio.run(run)
    except Exception as escaped:
        error = first_of(escaped)
        if isinstance(error, OrsServerError):  # status 1 is that of an alarm, at which a job may stop
            raise MisuseError(str(error)) from escaped
        raise
    if has_alarm:
        raise typer.Exit(ExitStatus.FAILED)


def _read_thresholds(options: WatchOptions) -> "AlarmThresholds":
    from ors_server.alarms.alarm_rules import RULES, read_thresholds

    values: dict[str, float] = {}
    for text in options.threshold:
        name, _, number = text.partition("=")
        try:
            values[name] = float(number)
        except ValueError:
            raise typer.BadParameter(f"--threshold: expected NAME=NUMBER, got {text!r}.") from None
    names = [rule.name for rule in RULES]
    for name in options.ignore:
        if name not in names:
            raise typer.BadParameter(f"--ignore: expected one of {', '.join(names)}, got {name!r}.")
    if not isfinite(options.success_at):
        raise typer.BadParameter(f"--success-at: expected a number, got {options.success_at}.")
    try:
        return read_thresholds(values)
    except ValueError as error:
        raise typer.BadParameter(f"--threshold: {error}.") from error


async def _watch(record: "RecordReader", options: WatchOptions, thresholds: "AlarmThresholds") -> bool:
    """Return whether an alarm opened."""
    from ors_server.alarms.watched_runs import WatchedRun, read_baseline
    from ors_server.client.client_errors import UnreachableError
    from ors_server.model.clock import SystemClock

    clock = SystemClock()
    baseline = None
    if options.baseline is not None:
        baseline = await read_baseline(record, options.baseline, thresholds)
        if len(baseline) < thresholds.min_episodes:
            raise typer.BadParameter(
                f"--baseline: expected at least {thresholds.min_episodes} ended episodes of the run "
                f"{options.baseline!r}, got {len(baseline)}."
            )
    watched = WatchedRun(record, options.run, thresholds, success_at=options.success_at, baseline=baseline)
    changed_at = clock.monotonic()
    while True:
        before = watched.alarms.episodes
        try:
            opened, _ = await watched.update()
        except (StoreError, UnreachableError) as error:
            if options.once or before == 0:
                raise
            complain(f"{error}; trying again")  # a server that is started again is not a reason to end
            await clock.sleep(POLL_SECONDS)
            continue
        opened = [alarm for alarm in opened if alarm.name not in options.ignore]
        for alarm in opened:
            _show(watched, alarm, as_json=options.json)
        if opened:
            return True
        now = clock.monotonic()
        if watched.alarms.episodes > before:
            changed_at = now
        if options.once or (options.idle is not None and now - changed_at >= options.idle):
            complain(f"{watched.alarms.episodes} ended episodes of the run {options.run!r}, no alarm")
            return False
        await clock.sleep(POLL_SECONDS if options.idle is None else min(POLL_SECONDS, options.idle))


def _show(watched: "WatchedRun", alarm: "Alarm", *, as_json: bool) -> None:
    if as_json:
        say_json({"run": watched.run, **alarm.as_json()})
        return
    reading = alarm.reading
    level = "bad, " if reading.is_bad else ""
    say(f"{alarm.name}: {alarm.title} ({level}after {alarm.since} ended episodes)")
    say(f"  {alarm.formula}: {reading.value:.3g}, threshold {reading.threshold:.3g}")
    if reading.note:
        say(f"  {reading.note}")
    say(f"  look at {', '.join(reading.episodes)}")
