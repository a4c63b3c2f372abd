"""`ors-server store`: looks after the record that servers write."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ors_server.cli.exit_status import ExitStatus
from ors_server.cli.options import Command, Group, from_fields
from ors_server.cli.output import MisuseError, say, say_json

if TYPE_CHECKING:
    from ors_server.store.place import Place

store = typer.Typer(
    cls=Group, no_args_is_help=True, help="Look after the record: figures, room, retention, form, truth."
)


@dataclass(frozen=True)
class StoreOptions:
    """What every command of the group can be told."""

    store: Annotated[
        str | None,
        typer.Option(
            metavar="PATH|URL",
            help="The record; where the settings say (ORS_STORE) by default.",
            show_default=False,
        ),
    ] = None
    json: Annotated[bool, typer.Option("--json", help="Print one line of JSON.")] = False


@dataclass(frozen=True)
class PruneOptions(StoreOptions):
    """What `prune` can be told."""

    retain_episodes: Annotated[
        int | None,
        typer.Option(
            min=0, help="Closed episodes to keep; as the settings say by default.", show_default=False
        ),
    ] = None
    retain_days: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Days after an episode's last change; as the settings say by default.",
            show_default=False,
        ),
    ] = None


def show_stats(options: StoreOptions) -> None:
    """Count episodes, steps, blobs and bytes."""
    from ors_server.store.sql.upkeep import gather_stats

    stats = gather_stats(_place(options))
    if options.json:
        say_json(stats.as_json())
        return
    for name, value in stats.as_json().items():
        shown = "-" if value is None else f"{value:,}" if isinstance(value, int) else value
        say(f"{name.replace('_', ' '):<15} {shown}")


def run_vacuum(options: StoreOptions) -> None:
    """Give the room of what was forgotten back to the disk.

    SQLite needs the file for itself, and as much room again, while it is packed.
    """
    from ors_server.store.sql.upkeep import vacuum

    saved = vacuum(_place(options))
    if options.json:
        say_json({"bytes": saved})
    else:
        say(f"{saved:,} bytes given back")


def run_prune(options: PruneOptions) -> None:
    """Forget what need not be kept: the oldest closed episodes beyond a number, and those of long ago.

    An episode whose server died was never closed; only --retain-days forgets it.
    """
    from ors_server.clock import SystemClock
    from ors_server.settings import load_settings
    from ors_server.store.sql.pruning import Retention
    from ors_server.store.sql.upkeep import prune

    settings = load_settings()
    retention = Retention(
        settings.retain_episodes if options.retain_episodes is None else options.retain_episodes,
        settings.retain_days if options.retain_days is None else options.retain_days,
    )
    if retention.is_everything:
        raise MisuseError("nothing says what to keep: give --retain-episodes or --retain-days")
    pruned = prune(_place(options), retention, SystemClock().now())
    if options.json:
        say_json({"episodes": pruned.episodes, "blobs": pruned.blobs})
    else:
        say(f"{pruned.episodes:,} episodes and {pruned.blobs:,} blobs forgotten")


def run_migrate(options: StoreOptions) -> None:
    """Bring a record that an older server wrote to this server's form.

    A server that opens it does the same. Older servers cannot write it afterwards: make a copy first.
    """
    from ors_server.store.sql.upkeep import bring_forward

    before, after = bring_forward(_place(options))
    if options.json:
        say_json({"before": before, "after": after})
    elif before == after:
        say(f"nothing to do: the record has the form {after}")
    else:
        say(f"brought from form {before or 'none'} to {after}")


def run_verify(options: StoreOptions) -> None:
    """Check that the record agrees with itself; the status is 1 where it does not.

    Step numbers follow one another, the steps' rewards add up to the summaries, every part can be read, every
    blob is there and is what was put there, and no row leads nowhere.
    """
    from ors_server.store.sql.verifying import verify

    done = verify(_place(options))
    if options.json:
        findings = [{"episode_id": found.episode_id, "text": found.text} for found in done.findings]
        counts = {"episodes": done.episodes, "steps": done.steps, "blobs": done.blobs}
        leftovers = list(done.leftovers)
        say_json({"sound": not findings, **counts, "findings": findings, "leftovers": leftovers})
    else:
        for leftover in done.leftovers:
            say(f"leftover: {leftover}")
        for found in done.findings:
            say(f"{found.episode_id or 'record'}: {found.text}")
        verdict = f"{len(done.findings):,} findings" if done.findings else "sound"
        say(f"{done.episodes:,} episodes, {done.steps:,} steps, {done.blobs:,} blobs: {verdict}")
    if done.findings:
        raise typer.Exit(ExitStatus.FAILED)


COMMANDS: dict[str, Callable[[Any], None]] = {
    "stats": show_stats,
    "vacuum": run_vacuum,
    "prune": run_prune,
    "migrate": run_migrate,
    "verify": run_verify,
}
"""The commands of the group by name."""
for name, command in COMMANDS.items():
    store.command(name, cls=Command)(from_fields(command))


def _place(options: StoreOptions) -> "Place":
    from ors_server.settings import load_settings
    from ors_server.store.place import PlaceKind, find_place

    place = find_place(options.store or load_settings().record)
    if place.kind is PlaceKind.MEMORY:
        raise MisuseError("a record in memory ends with its server; name another one with --store PATH")
    return place
