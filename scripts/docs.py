"""Writes the reference: settings, commands, control API, errors, rewards, JSON schemas, and the Python API.

Usage: `python scripts/docs.py` writes them; with `--check` it only says whether they are up to date.
The Python API is written by `scripts/api_reference.py`, which this runs.
"""

import inspect
import subprocess
import sys
from collections.abc import Mapping
from enum import Enum
from importlib import import_module
from itertools import groupby
from pathlib import Path
from typing import Any

import anyio
import httpx2
import typer

from ors_server import create_app
from ors_server.audit.report_schema import report_schema
from ors_server.cli.exit_status import MEANINGS
from ors_server.cli.main import COMMANDS, GROUPS, app
from ors_server.cli.setting_flags import flag_of
from ors_server.doors.http.faults import FAULTS, Fault
from ors_server.environments.declared.declaration_schema import declaration_schema
from ors_server.files.attribute_docs import attribute_docs
from ors_server.model.episode import TRANSITIONS, Phase
from ors_server.model.errors import Blame, OrsServerError
from ors_server.model.settings import Settings, load_settings
from ors_server.rewards.catalogue import CatalogueEntry, list_rewards
from ors_server.rewards.deviations import DEVIATIONS, Deviation

REFERENCE = Path(__file__).parents[1] / "docs" / "reference"
NOTE = "<!-- Written by scripts/docs.py; change the code and run it again. -->"
BECOMES = {"error": "no number", "number": "another number", "accepted": "a number instead of an error"}


def settings_page() -> str:
    """Render every setting with its unit, its default and where it can be given."""
    rows = [
        f"| `{name}` | {flag(name)} | `ORS_{name.upper()}` | {default(name)} | {text} |"
        for name, text in field_texts(Settings).items()
    ]
    return "\n".join(
        [
            "# Settings",
            "",
            NOTE,
            "",
            "A setting comes from its flag, else from its environment variable, else from the TOML file",
            "of `--config` or `ORS_CONFIG` (keys are the names of the first column), else from its",
            "default. A list is JSON in a variable (`ORS_ALLOWED_HOSTS='[\"example.org\"]'`) and a",
            "repeated flag. Secrets have no flag.",
            "",
            "| setting | flag | variable | default | meaning |",
            "|---|---|---|---|---|",
            *rows,
            "",
        ]
    )


def flag(name: str) -> str:
    """Spell a setting's flag."""
    if name == "environments":
        return "`REF...`"
    return f"`--{name.replace('_', '-')}`" if flag_of(Settings.model_fields[name]) else ""


def default(name: str) -> str:
    """Render a setting's default."""
    value = Settings.model_fields[name].get_default(call_default_factory=True)
    if value is None or value == []:
        return "none"
    return f"`{value.value if isinstance(value, Enum) else value}`"


def field_texts(cls: type[Settings]) -> dict[str, str]:
    """Return what each setting means, in order."""
    docs = attribute_docs(cls)
    return {name: " ".join(docs[name].split()) for name in cls.model_fields}


def cli_page() -> str:
    """Render every command with its arguments and options."""
    group: Any = typer.main.get_command(app)
    lines = [
        "# Command line",
        "",
        NOTE,
        "",
        "`ors-server [--debug] COMMAND ...`; `--version` prints the version.",
        "",
    ]
    for name in COMMANDS:
        _, command, _ = group.resolve_command(typer.Context(group), [name])
        lines += command_lines(name, command)
    for name in GROUPS:
        lines += group_lines(name, group.commands[name])
    lines += [
        "## Exit status",
        "",
        "They are the same for every command. An error is one line on standard error. `--debug`, anywhere in",
        "the command, shows tracebacks and the log.",
        "",
        "| status | meaning |",
        "|---|---|",
        *(f"| {status.value} | {words} |" for status, words in MEANINGS.items()),
        "",
    ]
    return "\n".join(lines)


def group_lines(name: str, group: Any) -> list[str]:
    """Render a group and its commands."""
    lines = [f"## {name}", "", group.help or "", ""]
    for each, command in group.commands.items():
        heading, *rest = command_lines(f"{name} {each}", command)
        lines += [f"#{heading}", *rest]
    return lines


def command_lines(name: str, command: Any) -> list[str]:
    """Render one command."""
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and p.name != "help"]
    usage = " ".join(
        ["ors-server", name, *(["[OPTIONS]"] if options else []), *map(argument_name, arguments)]
    )
    text = "\n\n".join(" ".join(part.split()) for part in inspect.cleandoc(command.help or "").split("\n\n"))
    rows = [f"| `{argument_name(p)}` | {p.help} |" for p in arguments]
    rows += [f"| {option_name(p)} | {p.help}{shown_default(p)}{variable(p)} |" for p in options]
    return [f"## {name}", "", f"`{usage}`", "", text, "", "| | |", "|---|---|", *rows, ""]


def argument_name(parameter: Any) -> str:
    """Spell an argument as the usage line has it."""
    name = (parameter.metavar or parameter.name.upper()).replace("|", " or ")
    more = "..." if parameter.nargs != 1 and not name.endswith("...") else ""
    return f"{name}{more}" if parameter.required else f"[{name}]{more}"


def option_name(parameter: Any) -> str:
    """Spell an option with the kind of its value."""
    kind = "" if parameter.is_flag else f" {parameter.name.upper()}"
    return f"`{parameter.opts[0]}{kind}`"


def shown_default(parameter: Any) -> str:
    """Render an option's default, where the help shows one."""
    if isinstance(parameter.show_default, str):
        return f" Default: {parameter.show_default}."
    if parameter.is_flag or parameter.default in (None, []):
        return ""
    return f" Default: {parameter.default}."


def variable(parameter: Any) -> str:
    """Render the environment variable that an option reads."""
    return f" Variable: `{parameter.envvar}`." if parameter.envvar else ""


def control_api_page() -> str:
    """Render the control API from its OpenAPI document: routes, their parameters, bodies and answers."""
    document = openapi()
    routes = [
        (f"{method.upper()} {path}", operation)
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    ]
    lines = [
        "# Control API",
        "",
        NOTE,
        "",
        "Every route of the [control API](../control-api.md), from the OpenAPI document that a server gives",
        "at `/_ors/openapi.json`. The role is the least one that may call the route: any caller, then",
        "`agent` (the session's own token), `trainer`, `admin`. Every failure is a [Problem](#problem).",
        "A field in brackets has a default.",
        "",
        "| route | role | what it does | body | answer |",
        "|---|---|---|---|---|",
        *(route_row(route, operation) for route, operation in routes),
        "",
        "## Query parameters",
        "",
    ]
    for route, operation in routes:
        queries = [each for each in operation["parameters"] if each["in"] == "query"]
        if queries:
            rows = [
                table_row((f"`{each['name']}`", json_type(each["schema"]), each.get("description", "")))
                for each in queries
            ]
            lines += [f"### {route}", "", "| parameter | type | meaning |", "|---|---|---|", *rows, ""]
    lines += ["## Bodies and answers", ""]
    for name, schema in document["components"]["schemas"].items():
        lines += schema_lines(name, schema)
    return "\n".join(lines)


def openapi() -> dict[str, Any]:
    """Ask an app for its OpenAPI document."""

    async def ask() -> dict[str, Any]:
        application = create_app(["qa"], load_settings(store="memory"))
        transport = httpx2.ASGITransport(application)
        async with (
            application.running(),
            httpx2.AsyncClient(transport=transport, base_url="http://localhost:8080") as client,
        ):
            answer: dict[str, Any] = (await client.get("/_ors/openapi.json")).json()
            return answer

    return anyio.run(ask)


def route_row(route: str, operation: dict[str, Any]) -> str:
    """Render one route."""
    success = next(answer for status, answer in operation["responses"].items() if status.startswith("2"))
    role = operation.get("x-role", "any caller") if operation["security"] else "any caller"
    return table_row(
        (
            f"`{route}`",
            role,
            operation["summary"],
            content_type(operation.get("requestBody", {})),
            content_type(success),
        )
    )


def content_type(carrier: dict[str, Any]) -> str:
    """Render the type of a body."""
    return ", ".join(
        json_type(content["schema"]) if kind == "application/json" else f"`{kind}`"
        for kind, content in carrier.get("content", {}).items()
    )


def schema_lines(name: str, schema: dict[str, Any]) -> list[str]:
    """Render one schema: what it is, and its fields."""
    lines = [f"### {name}", "", *filter(None, [" ".join(schema.get("description", "").split())]), ""]
    if "properties" not in schema:
        return [*lines, f"{json_type(schema).capitalize()}.", ""]
    required = schema.get("required", [])
    rows = [
        table_row(
            (
                f"`{field}`" if field in required or "default" not in about else f"[`{field}`]",
                json_type(about),
                " ".join(about.get("description", "").split()),
            )
        )
        for field, about in schema["properties"].items()
    ]
    return [*lines, "| field | type | meaning |", "|---|---|---|", *rows, ""]


def json_type(schema: dict[str, Any]) -> str:
    """Name what a JSON schema admits."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "enum" in schema or "const" in schema:
        values = schema.get("enum", [schema.get("const")])
        return ", ".join(f"`{value}`" for value in values)
    choices = schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf")
    if choices:
        return " or ".join(dict.fromkeys(map(json_type, choices)))
    kind = schema.get("type", "any")
    if kind == "array":
        return f"list of {json_type(schema.get('items', {}))}"
    inner = schema.get("additionalProperties")
    return (
        f"object of {json_type(inner)}"
        if kind == "object" and isinstance(inner, dict) and inner
        else str(kind)
    )


def state_diagram() -> str:
    """Draw the episode's table of transitions as a mermaid diagram, one arrow per pair of phases."""
    arrows: dict[tuple[Phase, Phase], list[str]] = {}
    for (before, event), after in TRANSITIONS.items():
        arrows.setdefault((before, after), []).append(event.value)
    lines = ["stateDiagram-v2", f"    [*] --> {Phase.CREATED.value}"]
    lines += [f"    {a.value} --> {b.value}: {', '.join(events)}" for (a, b), events in arrows.items()]
    left = {before for before, _ in TRANSITIONS}
    lines += [f"    {phase.value} --> [*]" for phase in Phase if phase not in left]
    return "\n".join(lines)


def rewards_page() -> str:
    """Render every reward with its inputs, its range, its source and its hazards."""
    lines = [
        "# Rewards",
        "",
        NOTE,
        "",
        "Every reward of the library, by its module. A field in brackets has a default. The range is that of",
        "judgements: a reward that cannot judge gives no number. The source says whose semantics it has, the",
        "hazards how it can pay for something else than intended. `ors-server rewards NAME` shows the whole",
        "documentation.",
        "",
    ]
    for module, entries in groupby(list_rewards(), key=lambda entry: entry.place.partition(":")[0]):
        lines += [
            f"## {module.rpartition('.')[2]}",
            "",
            (inspect.getdoc(import_module(module)) or "").partition("\n")[0],
            "",
            "| reward | inputs | range | what it does | source | hazards |",
            "|---|---|---|---|---|---|",
            *map(reward_row, entries),
            "",
        ]
    return "\n".join(lines)


def reward_row(entry: CatalogueEntry) -> str:
    """Render one reward."""
    inputs = ", ".join(f"`{name}`" for name in sorted(entry.fields, key=lambda name: name.startswith("[")))
    allowed = "any" if entry.range is None else f"[{entry.range[0]:g}, {entry.range[1]:g}]"
    cells = (f"`{entry.name}`", inputs, allowed, entry.summary, entry.source, entry.hazards)
    return table_row(cells)


BLAMES = {
    Blame.CLIENT: "The program that called the server has to change its request.",
    Blame.AUTHOR: "The environment's author has to correct it. The step is recorded as failed, unpaid.",
    Blame.MACHINERY: "The same request may succeed later: repeat it, with the same call id.",
    Blame.US: "A defect of the server. Its log has the traceback.",
}


def errors_page() -> str:
    """Render every error with its code, its statuses and its meaning, by who has to act."""
    lines = [
        "# Errors",
        "",
        NOTE,
        "",
        "Every error that the server raises on purpose, by who has to act. Answers have the `code` and",
        "`blame` of their error; the [client](../client.md#what-a-call-returns) raises the same class. A",
        "mistake of an agent is not an error: the agent reads what was wrong. The JSON-RPC codes are used",
        "over MCP.",
        "",
    ]
    faults: Mapping[type[OrsServerError], Fault] = FAULTS
    for blame, meaning in BLAMES.items():
        rows = [error_row(error, fault) for error, fault in faults.items() if error.blame is blame]
        header = "| code | class | HTTP | control API | JSON-RPC | when |"
        lines += [f"## {blame.value}", "", meaning, "", header, "|---|---|---|---|---|---|", *rows, ""]
    return "\n".join(lines)


def error_row(error: type[OrsServerError], fault: Fault) -> str:
    """Render one error."""
    summary = (inspect.getdoc(error) or "").partition("\n\n")[0]
    cells = (f"`{error.code}`", f"`{error.__name__}`", str(fault.status), str(fault.control_status))
    return table_row((*cells, str(fault.jsonrpc), " ".join(summary.split())))


def deviations_page() -> str:
    """Render the table of deviations."""
    return "\n".join(
        [
            "# Differences from other reward packages",
            "",
            NOTE,
            "",
            "Look up where a reward gives another result than the one of the same name in ARISE, AgentFly or",
            "rouge-score, and why. The rows of one recording as text:",
            "",
            "```python",
            "from ors_server.rewards.deviations import deviations_of",
            "",
            'for row in deviations_of("arise_llm_judge_reward"):',
            '    print(f"{row.what} Reason: {row.why}.")',
            "```",
            "",
            "- The other packages' results were recorded, in `tests/data/rewards/`.",
            "- In every recorded case, the value agrees to 1e-9, or the error is of the same class, or a row",
            "  of this table states the difference. Tests check this, and that every row is needed.",
            "",
            "| recording | there | here | result here | why |",
            "|---|---|---|---|---|",
            *map(deviation_row, DEVIATIONS),
            "",
        ]
    )


def deviation_row(row: Deviation) -> str:
    """Render one deviation."""
    given = f": {', '.join(f'{value:g}' for value in row.gives)}" if row.gives else ""
    files = ", ".join(f"`{name}`" for name in row.files)
    return table_row((files, row.theirs, row.ours, BECOMES[row.becomes] + given, row.why))


def table_row(cells: tuple[str, ...]) -> str:
    """Render a row of a table."""
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


PAGES = {
    "settings.md": settings_page,
    "cli.md": cli_page,
    "control-api.md": control_api_page,
    "errors.md": errors_page,
    "rewards.md": rewards_page,
    "rewards-deviations.md": deviations_page,
    "environment.schema.json": declaration_schema,
    "audit.schema.json": report_schema,
}


def main() -> int:
    """Write the pages, or say which are out of date."""
    python_api = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("api_reference.py")), *sys.argv[1:]], check=False
    )
    stale = [name for name, render in PAGES.items() if not is_fresh(name, render())]
    if "--check" in sys.argv[1:]:
        print("\n".join(f"docs/reference/{name} is out of date; run scripts/docs.py" for name in stale))
        return len(stale) + python_api.returncode
    REFERENCE.mkdir(parents=True, exist_ok=True)
    for name in stale:
        (REFERENCE / name).write_text(PAGES[name](), encoding="utf-8")
    return python_api.returncode


def is_fresh(name: str, text: str) -> bool:
    """Say whether a page has this text already."""
    page = REFERENCE / name
    return page.exists() and page.read_text(encoding="utf-8") == text


if __name__ == "__main__":
    sys.exit(main())
