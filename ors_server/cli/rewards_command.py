"""`ors-server rewards`: lists the library's rewards, or shows one."""

import inspect
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ors_server.cli.command_output import say, say_json

if TYPE_CHECKING:
    from ors_server.rewards.catalogue import CatalogueEntry

_WIDE = 1000
"""Columns where nobody watches, so that one reward stays one line."""


@dataclass(frozen=True)
class RewardsOptions:
    """What `rewards` can be told."""

    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="A reward to show in full: its name, module:name, or file.py:name.",
            show_default=False,
        ),
    ] = None
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False


def rewards(options: RewardsOptions) -> None:
    """List the rewards of the library, or show the documentation of one."""
    from ors_server.rewards.catalogue import list_rewards

    if options.name is not None:
        _show(options.name, as_json=options.json)
    elif options.json:
        say_json([describe(entry) for entry in list_rewards()])
    else:
        _print_table(list(list_rewards()))


def describe(entry: "CatalogueEntry") -> dict[str, Any]:
    """Describe a reward with JSON types.

    Args:
        entry: Of the catalogue.
    """
    return {
        "name": entry.name,
        "summary": entry.summary,
        "range": None if entry.range is None else list(entry.range),
        "required": [name for name in entry.fields if not name.startswith("[")],
        "optional": [name.strip("[]") for name in entry.fields if name.startswith("[")],
        "place": entry.place,
    }


def _show(name: str, *, as_json: bool) -> None:
    from ors_server.rewards.catalogue import find_reward

    found = find_reward(name)
    signature = found.signature
    texts = (inspect.getdoc(one) for one in dict.fromkeys(_documented(found)))
    documentation = "\n\n".join(dict.fromkeys(text for text in texts if text))
    if as_json:
        say_json(
            {
                "name": found.name,
                "range": None if found.range is None else list(found.range),
                "required": sorted(signature.required),
                "optional": sorted(signature.optional),
                "documentation": documentation,
            }
        )
        return
    fields = ", ".join([*sorted(signature.required), *(f"[{one}]" for one in sorted(signature.optional))])
    say(f"{found.name} {_range(found.range)}")
    say(f"takes {fields or 'every field'}")
    say()
    say(documentation or "It has no documentation.")


def _documented(found: Any) -> list[Any]:
    from ors_server.rewards.define import FunctionReward

    return [found.function] if isinstance(found, FunctionReward) else [type(found), found.function]


def _range(allowed: tuple[float, float] | None) -> str:
    return "any" if allowed is None else f"[{allowed[0]:g}, {allowed[1]:g}]"


def _print_table(entries: "list[CatalogueEntry]") -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("reward", "range", "takes", "what it does"):
        table.add_column(heading, no_wrap=True, overflow="ellipsis")
    for entry in entries:
        cells = (entry.name, _range(entry.range), ", ".join(entry.fields), entry.summary)
        table.add_row(*(Text(cell) for cell in cells))
    Console(highlight=False, width=None if sys.stdout.isatty() else _WIDE).print(table)
