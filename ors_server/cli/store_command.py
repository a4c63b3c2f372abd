"""`ors-server store`: manages the episode store."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ors_server.cli.command_options import Command, CommandGroup, from_fields
from ors_server.cli.command_output import MisuseError, say, say_json
from ors_server.cli.examples import epilog_of
from ors_server.cli.exit_status import ExitStatus
from ors_server.cli.filters import StoreChoice

if TYPE_CHECKING:
    from ors_server.store.location import StoreLocation

store = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    help="Manage the episode store: statistics, disk space, retention, schema, integrity.",
)


@dataclass(frozen=True, kw_only=True)
class StoreCommandOptions(StoreChoice):
    """Options of every command of the group."""

    json: Annotated[bool, typer.Option("--json", help="Print one line of JSON.")] = False


@dataclass(frozen=True, kw_only=True)
class PruneOptions(StoreCommandOptions):
    """Options of `prune`."""

    retain_episodes: Annotated[
        int | None,
        typer.Option(min=0, help="Closed episodes to keep; by default the setting's.", show_default=False),
    ] = None
    retain_days: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Days after an episode's last change; by default the setting's.",
            show_default=False,
        ),
    ] = None


def show_stats(options: StoreCommandOptions) -> None:
    """Count episodes, steps, blobs and bytes."""
    from ors_server.store.sql.maintenance import count_store

    stats = count_store(_location(options))
    if options.json:
        say_json(stats.as_json())
        return
    for name, value in stats.as_json().items():
        shown = "-" if value is None else f"{value:,}" if isinstance(value, int) else value
        say(f"{name.replace('_', ' '):<15} {shown}")


def run_vacuum(options: StoreCommandOptions) -> None:
    """Return freed space to the file system (VACUUM).

    SQLite needs exclusive use of the file, and as much free disk space again, while it runs.
    """
    from ors_server.store.sql.maintenance import vacuum

    saved = vacuum(_location(options))
    if options.json:
        say_json({"bytes": saved})
    else:
        say(f"{saved:,} bytes freed")


def run_prune(options: PruneOptions) -> None:
    """Remove the oldest closed episodes beyond a number, and episodes unchanged for some days.

    An episode whose server crashed was never closed; only --retain-days removes it.
    """
    from ors_server.model.clock import SystemClock
    from ors_server.model.settings import load_settings
    from ors_server.store.sql.maintenance import prune
    from ors_server.store.sql.pruning import Retention

    settings = load_settings()
    retention = Retention(
        settings.retain_episodes if options.retain_episodes is None else options.retain_episodes,
        settings.retain_days if options.retain_days is None else options.retain_days,
    )
    if retention.is_everything:
        raise MisuseError("nothing to prune by: give --retain-episodes or --retain-days")
    pruned = prune(_location(options), retention, SystemClock().now())
    if options.json:
        say_json({"episodes": pruned.episodes, "blobs": pruned.blobs})
    else:
        say(f"{pruned.episodes:,} episodes and {pruned.blobs:,} blobs removed")


def run_migrate(options: StoreCommandOptions) -> None:
    """Migrate a store that an older server wrote to this server's schema.

    A server that opens it does the same. Older servers cannot use it afterwards: make a copy first.
    """
    from ors_server.store.sql.maintenance import migrate_store

    before, after = migrate_store(_location(options))
    if options.json:
        say_json({"before": before, "after": after})
    elif before == after:
        say(f"nothing to do: the store has schema {after}")
    else:
        say(f"migrated from schema {before or 'none'} to {after}")


def run_verify(options: StoreCommandOptions) -> None:
    """Check the episode store for contradictions; the exit status is 1 if there are any.

    Step numbers are consecutive, the steps' rewards add up to the summaries, every part can be read, every
    blob exists and matches its hash, and no row refers to a missing one.
    """
    from ors_server.store.sql.verification import verify

    done = verify(_location(options))
    if options.json:
        findings = [{"episode_id": finding.episode_id, "text": finding.text} for finding in done.findings]
        counts = {"episodes": done.episodes, "steps": done.steps, "blobs": done.blobs}
        leftovers = list(done.leftovers)
        say_json({"sound": not findings, **counts, "findings": findings, "leftovers": leftovers})
    else:
        for leftover in done.leftovers:
            say(f"leftover: {leftover}")
        for finding in done.findings:
            say(f"{finding.episode_id or 'record'}: {finding.text}")
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
    store.command(name, cls=Command, epilog=epilog_of(f"store {name}"))(from_fields(command))


def _location(options: StoreCommandOptions) -> "StoreLocation":
    from ors_server.model.settings import load_settings
    from ors_server.store.location import StoreKind, parse_location

    location = parse_location(options.store or load_settings().record)
    if location.kind is StoreKind.MEMORY:
        raise MisuseError("a store in memory ends with its server; name a file with --store PATH")
    return location
