"""`ors-server import`: proves environments of other packages, and reads episodes that other tools wrote."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ors_server.cli.check_command import progress
from ors_server.cli.command_output import MisuseError, complain, say, say_json
from ors_server.cli.exit_status import ExitStatus
from ors_server.cli.shell_completion import installed_names
from ors_server.cli.terminal import make_console, make_table

if TYPE_CHECKING:
    from ors_server.environments.sources import Source


ATIF = "atif"
"""The word before files of trajectories; no source has this name."""


@dataclass(frozen=True)
class ImportOptions:
    """Options of `import`."""

    references: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE[/NAME]",
            autocompletion=installed_names,
            help="Sources, or single environments of them, such as gymnasium/Taxi-v4; or `atif` and files or "
            "folders of trajectories.",
        ),
    ]
    check: Annotated[
        bool, typer.Option("--check", help="Play each with baselines, and run the checks of `check`.")
    ] = False
    tasks: Annotated[int, typer.Option(help="Tasks of each environment that are played.", min=1)] = 3
    include_broken: Annotated[
        bool, typer.Option("--include-broken", help="Also those that their source lists as broken.")
    ] = False
    store: Annotated[
        str | None, typer.Option(metavar="PATH|URL", help="atif: where episodes go; the settings' store.")
    ] = None
    environment: Annotated[
        str | None, typer.Option(help="atif: environment of other tools' episodes; the agent's name.")
    ] = None
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False


def import_environments(options: ImportOptions) -> None:
    """Show environments of other packages, and prove them with --check; or read trajectories in ATIF.

    With --check, the oracle, an agent that does nothing, and one that plays random calls play each
    environment; prompts and returns are compared between two plays; and the checks of `check` run. The
    status is 1 if anything fails but a check that an environment only should pass.

    `import atif PATH...` writes the episodes of documents of ATIF 1.0 to 1.8 to a store. Those that are in it
    stay as they are. Documents that cannot be read are named, and the status is then 1.
    """
    import anyio

    if options.references[0] == ATIF:
        failed_documents = anyio.run(_import_atif, options)
        if failed_documents:
            raise typer.Exit(ExitStatus.FAILED)
        return
    chosen = list(_choose(options))
    broken = [
        {"reference": f"{source.name}/{name}", "reason": source.broken[name]}
        for source, name in chosen
        if name in source.broken
    ]
    if not options.include_broken:
        chosen = [(source, name) for source, name in chosen if name not in source.broken]
    proofs: list[dict[str, Any]] = []
    if options.check:
        proofs = anyio.run(_prove_all, chosen, options)
    else:
        proofs = [{"reference": f"{source.name}/{name}", "problems": []} for source, name in chosen]
    failed = [proof for proof in proofs if proof["problems"]]
    if options.json:
        say_json({"conformant": not failed, "environments": proofs, "broken": broken})
    else:
        _print(proofs, broken, options)
    if failed:
        raise typer.Exit(ExitStatus.FAILED)


async def _import_atif(options: ImportOptions) -> int:
    """Read documents into a store; return how many could not be read."""
    from ors_server.export.atif_reading import find_documents, read_document
    from ors_server.export.storing import store_episode
    from ors_server.model.errors import RecordError
    from ors_server.model.settings import load_settings
    from ors_server.store.open import open_store

    paths = [Path(reference) for reference in options.references[1:]]
    if not paths:
        raise MisuseError("name the files or folders: ors-server import atif PATH...")
    stored = skipped = 0
    failures: list[str] = []
    store = await open_store(options.store or load_settings().record)
    try:
        for path in paths:
            for document in find_documents(path):
                try:
                    episode = read_document(document, options.environment)
                except RecordError as error:
                    failures.append(str(error))
                    continue
                if await store_episode(store, episode):
                    stored += 1
                else:
                    skipped += 1
    finally:
        await store.aclose()
    if options.json:
        say_json({"stored": stored, "skipped": skipped, "failures": failures})
    else:
        say(f"{stored} episodes stored; {skipped} skipped, which the store has or which had not ended")
        for failure in failures:
            complain(failure)
    return len(failures)


def _choose(options: ImportOptions) -> "Iterator[tuple[Source, str]]":
    from ors_server.environments.sources import FORCE, load_source

    for reference in options.references:
        source_name, slash, name = reference.partition("/")
        source = load_source(source_name)
        source.check_installed()
        if not slash:
            yield from ((source, name) for name in source.list_names())
            continue
        name = name.removesuffix(FORCE)
        source.check_name(name)
        if name in source.broken and not options.include_broken:
            raise MisuseError(
                f"{source_name}/{name} is listed as broken: {source.broken[name]}; --include-broken plays it "
                "all the same"
            )
        yield source, name


async def _prove_all(chosen: "list[tuple[Source, str]]", options: ImportOptions) -> list[dict[str, Any]]:
    from ors_server.evaluation.import_proofs import prove
    from ors_server.model.errors import OrsServerError

    proofs: list[dict[str, Any]] = []
    with progress() as on_progress:
        for source, name in chosen:
            try:
                proof = await prove(source, name, tasks=options.tasks, on_progress=on_progress)
            except OrsServerError as error:
                reference = f"{source.name}/{name}"
                proofs.append({"reference": reference, "problems": [str(error)]})
            else:
                proofs.append(proof.describe())
    return proofs


def _print(proofs: list[dict[str, Any]], broken: list[dict[str, str]], options: ImportOptions) -> None:
    if options.check:
        table = make_table(
            "environment", "tasks", "tools", "oracle", "no-op", "random", "repeatable", "checks", left=3
        )
        for proof in proofs:
            table.add_row(*_cells(proof))
        make_console().print(table)
    else:
        for proof in proofs:
            say(proof["reference"])
    for proof in proofs:
        for failure in (*proof["problems"], *proof.get("remarks", ())):
            complain(f"{proof['reference']}: {failure}")
    for failure in broken:
        verb = "broken" if options.include_broken else "left out"
        complain(f"{verb}: {failure['reference']}: {failure['reason']}")


def _cells(proof: dict[str, Any]) -> list[str]:
    if "returns" not in proof:
        return [proof["reference"], "-", "-", "-", "-", "-", "-", "not made"]
    tasks = ", ".join(f"{split} {size}" for split, size in proof["tasks"].items())
    returns = [
        "-" if figures is None else f"{figures['mean']:.3g}"
        for figures in (proof["returns"][agent] for agent in ("oracle", "noop", "random"))
    ]
    checks = proof["checks"]
    verdict = (
        f"{checks['pass']} passed, {checks['fail']} failed" if checks["fail"] else f"{checks['pass']} passed"
    )
    repeatable = "yes" if proof["is_repeatable"] else "no"
    return [proof["reference"], tasks, ", ".join(proof["tools"]), *returns, repeatable, verdict]
