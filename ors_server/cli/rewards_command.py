"""`ors-server rewards`: lists the library's rewards, or shows one."""

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ors_server.cli.command_output import say, say_json
from ors_server.cli.terminal import make_console, make_table

if TYPE_CHECKING:
    from ors_server.rewards.catalogue import CatalogueEntry

_PIPED_WIDTH = 1000
"""Columns in a pipe or file, so that each reward is one line."""


@dataclass(frozen=True)
class RewardsOptions:
    """Options of `rewards`."""

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
    """Describe a reward of the catalogue with JSON types."""
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
    from ors_server.rewards.define import FunctionReward

    reward: Any = find_reward(name)
    signature = reward.signature
    is_function = isinstance(reward, FunctionReward)
    documented: list[Any] = [reward.function] if is_function else [type(reward), reward.function]
    texts = (inspect.getdoc(item) for item in dict.fromkeys(documented))
    documentation = "\n\n".join(dict.fromkeys(text for text in texts if text))
    if as_json:
        say_json(
            {
                "name": reward.name,
                "range": None if reward.range is None else list(reward.range),
                "required": sorted(signature.required),
                "optional": sorted(signature.optional),
                "documentation": documentation,
            }
        )
        return
    fields = ", ".join([*sorted(signature.required), *(f"[{name}]" for name in sorted(signature.optional))])
    say(f"{reward.name} {_range(reward.range)}")
    say(f"takes {fields or 'every field'}")
    say()
    say(documentation or "It has no documentation.")


def _range(allowed: tuple[float, float] | None) -> str:
    return "any" if allowed is None else f"[{allowed[0]:g}, {allowed[1]:g}]"


def _print_table(entries: "list[CatalogueEntry]") -> None:
    from rich.text import Text

    table = make_table("reward", "range", "takes", "what it does", left=4, no_wrap=True, overflow="ellipsis")
    for entry in entries:
        cells = (entry.name, _range(entry.range), ", ".join(entry.fields), entry.summary)
        table.add_row(*(Text(cell) for cell in cells))
    make_console(piped_width=_PIPED_WIDTH).print(table)
