"""`ors-server list`: shows environments, their splits and their tools."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ors_server.cli.command_output import complain, say, say_json
from ors_server.cli.data_options import DataOptions, resolve_chosen
from ors_server.cli.shell_completion import installed_names
from ors_server.cli.terminal import make_console, make_table

if TYPE_CHECKING:
    from ors_server.environments.definition import EnvironmentDefinition


@dataclass(frozen=True)
class EnvironmentListOptions(DataOptions):
    """Options of `list`."""

    references: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="REF",
            autocompletion=installed_names,
            help="Environments: name, module:Class, or path; all installed ones by default.",
            show_default=False,
        ),
    ] = None
    available: Annotated[
        bool,
        typer.Option(
            "--available", help="Show the sources of environments instead, and how each is installed."
        ),
    ] = False
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False


def list_environments(options: EnvironmentListOptions) -> None:
    """Show environments with their splits, numbers of tasks, and tools."""
    import anyio

    from ors_server.cli.serve_command import choose
    from ors_server.environments.loading import definitions_of

    if options.available:
        _show_available(options.references or [], as_json=options.json)
        return

    references = resolve_chosen(choose(options.references), options)
    definitions = [definition for reference in references for definition in definitions_of(reference)]

    async def describe_all() -> list[dict[str, Any]]:
        return [await describe(definition) for definition in definitions]

    described = anyio.run(describe_all)
    if options.json:
        say_json(described)
        return
    _print_table(described)


async def describe(definition: "EnvironmentDefinition") -> dict[str, Any]:
    """Describe an environment with JSON types."""
    splits = [
        {"name": split.name, "type": split.type, "tasks": await definition.tasks.num_tasks(split.name)}
        for split in definition.splits
    ]
    return {
        "name": definition.name,
        "version": definition.version,
        "description": definition.description,
        "splits": splits,
        "tools": [tool.model_dump() for tool in definition.listing.tools],
        "policy": definition.policy.model_dump(mode="json"),
    }


def _print_table(described: list[dict[str, Any]]) -> None:
    if not described:
        say("No environment is installed; name one, or make one with `ors-server new`.")
        return
    table = make_table("environment", "version", "tasks", "tools", left=4)
    for environment in described:
        tasks = ", ".join(f"{split['name']} {split['tasks']}" for split in environment["splits"])
        tools = ", ".join(tool["name"] for tool in environment["tools"])
        table.add_row(environment["name"], environment["version"], tasks, tools)
    make_console().print(table)


def _show_available(names: Sequence[str], *, as_json: bool) -> None:
    """Print what each source could serve; with names, every environment of those sources.

    Raises:
        UnknownEnvironmentError: If there is no source of a name.
    """
    from ors_server.environments.sources import load_source, source_names

    described = [_describe_source(load_source(name)) for name in names or source_names()]
    if as_json:
        say_json(described)
        return
    if names:
        for source in described:
            for name in source["environments"]:
                reason = source["broken"].get(name)
                say(f"{source['source']}/{name}{f'  (broken: {reason})' if reason else ''}")
    else:
        _print_sources(described)


def _print_sources(described: list[dict[str, Any]]) -> None:
    table = make_table("source", "environments", "licence", "installed", left=4)
    for source in described:
        broken = f" ({len(source['broken'])} broken)" if source["broken"] else ""
        number = "any" if source["is_open"] and not source["environments"] else len(source["environments"])
        table.add_row(
            source["source"],
            f"{number}{broken}",
            source["licence"],
            "yes" if source["installed"] else "no",
        )
    make_console().print(table)
    for source in described:
        if not source["installed"]:
            complain(f"{source['source']}: {'; '.join(source['missing'])}")
            say(f"Install {source['source']} with: {source['install']}")


def _describe_source(source: Any) -> dict[str, Any]:
    missing = source.missing()
    return {
        "source": source.name,
        "environments": list(source.list_names()),
        "broken": dict(source.broken),
        "is_open": source.is_open,
        "requires": list(source.requires),
        "licence": source.licence,
        "homepage": source.homepage,
        "installed": not missing,
        "missing": missing,
        "install": source.install_command,
    }
