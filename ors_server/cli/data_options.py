"""Options that declare an environment over a data file, and the one place that reads the references."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from ors_server.cli.command_options import read_pairs
from ors_server.cli.command_output import MisuseError, complain
from ors_server.model.errors import DeclarationError

if TYPE_CHECKING:
    from ors_server.environments.definition import EnvironmentDefinition
    from ors_server.model.wire import JSONObject


@dataclass(frozen=True, kw_only=True)
class DataOptions:
    """How the rows of a data file are tasks."""

    panel: ClassVar = "Data files"

    prompt: Annotated[
        str | None,
        typer.Option(
            metavar="FIELD|TEMPLATE",
            help="Of a data file (.jsonl, .json, .csv, .tsv, .parquet), a folder of them, or "
            "hf:NAME@CONFIG:SPLIT as REF: "
            "the field with the prompt, or a template such as 'Solve: {{ question }}'.",
        ),
    ] = None
    answer: Annotated[
        str | None,
        typer.Option(metavar="FIELD|TEMPLATE", help="The field with the right answer, or a template."),
    ] = None
    reward: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="The reward: a name that `ors-server rewards` lists, or module:name."
        ),
    ] = None
    reward_option: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE", help="An option of the reward; the value is JSON or text; repeatable."
        ),
    ] = None
    recipe: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="How a well-known data set is read: gsm8k, math, squad2 and others."
        ),
    ] = None
    name: Annotated[str | None, typer.Option(help="Name of the environment.", show_default="the file's")] = (
        None
    )
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Count wrong rows and leave them out.")] = False


def declared_keys(options: DataOptions) -> dict[str, Any]:
    """Return the keys of a declaration that were given as options."""
    values = {
        "prompt": options.prompt,
        "answer": options.answer,
        "recipe": options.recipe,
        "name": options.name,
    }
    keys: dict[str, Any] = {key: value for key, value in values.items() if value is not None}
    if options.reward is not None:
        pairs = read_pairs("--reward-option", options.reward_option, texts=True) or {}
        keys["reward"] = {"name": options.reward, "options": pairs}
    elif options.reward_option:
        raise MisuseError("--reward-option needs --reward NAME")
    if options.skip_bad:
        keys["skip_bad"] = True
    return keys


def resolve_chosen(
    chosen: "Mapping[str, EnvironmentDefinition | None]", options: DataOptions
) -> "list[str | type | EnvironmentDefinition]":
    """Return what references name: their definitions where they are loaded, else as `resolve_references`."""
    names = [name for name, definition in chosen.items() if definition is None]
    resolved = dict(zip(names, resolve_references(names, options), strict=True))
    return [definition or resolved[name] for name, definition in chosen.items()]


def resolve_references(references: Sequence[str], options: DataOptions) -> list[str | type]:
    """Return references, with the classes of those that are data files or declarations.

    Prints how many wrong rows were left out.

    Raises:
        MisuseError: If there are options for data, and no reference is a data file; or the options do not
            declare an environment over a data file.
        EnvironmentDefinitionError: If a declaration or its data breaks a rule.
    """
    from ors_server.environments.declared.references import declaration_of, declare_data, declare_file
    from ors_server.environments.declared.rows.choose_source import is_data, is_data_folder

    keys = declared_keys(options)
    resolved: list[str | type] = []
    for reference in references:
        file = declaration_of(reference)
        definition: Any = None
        if file is not None:
            if unusable := sorted(set(keys) - {"skip_bad", "name"}):
                names = ", ".join(f"--{key}" for key in unusable)
                raise MisuseError(f"{names}: {reference} declares that itself; change its environment.toml")
            definition = declare_file(file, keys)
        elif is_data(reference) or (keys and is_data_folder(reference)):
            try:
                definition = declare_data(reference, keys)
            except DeclarationError as error:  # the options are the declaration
                raise MisuseError(str(error)) from error
        resolved.append(reference if definition is None else definition)
        if definition is not None:
            _report_skipped(definition)
    if keys and all(isinstance(item, str) for item in resolved):
        names = ", ".join(f"--{key.replace('_', '-')}" for key in keys)
        shown = ", ".join(references) or "none"
        raise MisuseError(f"{names}: expected a data file, such as train.jsonl, got {shown}")
    return resolved


def _report_skipped(definition: Any) -> None:
    for index in definition.row_indices():
        summary = index.summary
        if summary.skipped:
            complain(
                f"left out {summary.skipped} of {summary.rows + summary.skipped} rows; the first is "
                f"{summary.first_skipped}"
            )


def read_other_sets(against: Sequence[str] | None) -> "dict[str, Iterator[JSONObject]]":
    """Return the rows of the named sets, each of which is read once.

    Raises:
        BadParameter: If a name or a file is missing.
        EnvironmentDefinitionError: If a file cannot be read.
    """
    from ors_server.environments.declared.row_faults import RowFaultError
    from ors_server.environments.declared.rows.choose_source import choose_source

    def rows_of(file: str) -> "Iterator[JSONObject]":
        for row in choose_source(file, Path()).rows():
            if not isinstance(row.value, RowFaultError):  # a broken row has no text to be found
                yield row.value

    files = read_pairs("--against", against, texts=True) or {}
    for file in files.values():
        choose_source(str(file), Path())
    return {name: rows_of(str(file)) for name, file in files.items()}
