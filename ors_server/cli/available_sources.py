"""`ors-server list --available`: the sources of environments, and how each is installed."""

from collections.abc import Sequence
from typing import Any

from ors_server.cli.command_output import complain, say, say_json
from ors_server.cli.terminal import make_console, make_table


def show_available(names: Sequence[str], *, as_json: bool) -> None:
    """Print what each source could serve; with names, every environment of those sources.

    Raises:
        UnknownEnvironmentError: If there is no source of a name.
    """
    from ors_server.environments.sources import load_source, source_names

    described = [_describe(load_source(name)) for name in names or source_names()]
    if as_json:
        say_json(described)
        return
    if names:
        _print_names(described)
    else:
        _print_table(described)


def _print_names(described: list[dict[str, Any]]) -> None:
    for source in described:
        for name in source["environments"]:
            reason = source["broken"].get(name)
            say(f"{source['source']}/{name}{f'  (broken: {reason})' if reason else ''}")


def _print_table(described: list[dict[str, Any]]) -> None:
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


def _describe(source: Any) -> dict[str, Any]:
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
