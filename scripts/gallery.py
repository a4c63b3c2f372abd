"""Writes docs/reference/gallery.md: every environment of every source, with what baselines earned in it.

The figures are in docs/reference/gallery.json, which `ors-server import` measures:

    ors-server import SOURCE --check --include-broken --json > proofs.json
    python scripts/gallery.py --update proofs.json

Usage: `python scripts/gallery.py` writes the page; with `--check` it only says whether it is up to date.
"""

import json
import sys
from pathlib import Path
from typing import Any

from ors_server.environments.sources import FORCE, Source, load_source, source_names
from ors_server.installation import DISTRIBUTION

ROOT = Path(__file__).parents[1]
DATA = ROOT / "docs/reference/gallery.json"
VERDICTS = ROOT / "docs/reference/audit-verdicts.json"
PAGE = ROOT / "docs/reference/gallery.md"
AGENTS = ("oracle", "noop", "random")
HEAD = """# Gallery

<!-- Written by scripts/gallery.py; change the sources or measure again, and run it. -->

Environments of [other packages](../adapters.md) that this server serves by `SOURCE/NAME`. Oracle, no-op and
random are mean returns over some tasks of the test split, as `ors-server import SOURCE --check` measured
them; `-` means that no actions are known which earn the most, or that nothing was measured. The last column
has the classes of [`ors-server audit`](../audit.md) that fail or warn; the [verdicts](audit-verdicts.md)
show why. A broken environment is left out unless it is requested by its name and a `!`. Problems and games
that begin alike are one task, unless chance decides how a game continues; a source lists environments in
which tasks repeat nevertheless.

| source | environments | licence | install with |
|---|---|---|---|
"""


def read_data() -> dict[str, dict[str, Any]]:
    """Read the measured figures, by reference."""
    data: dict[str, dict[str, Any]] = json.loads(DATA.read_text())
    return data


def page(data: dict[str, dict[str, Any]]) -> str:
    """Render the page."""
    sources = [load_source(name) for name in source_names()]
    rows = "".join(
        f"| [{source.name}]({source.homepage}) | {len(source.list_names()) or 'any'} | {source.licence} | "
        f"`{_published_command(source)}` |\n"
        for source in sources
    )
    return HEAD + rows + "".join(_section(source, data) for source in sources)


def _published_command(source: Source) -> str:
    """Return the command that installs what a source needs, for a user without a checkout."""
    return source.install or f"pip install '{DISTRIBUTION}[{source.extra_name}]'"


def _section(source: Source, data: dict[str, dict[str, Any]]) -> str:
    if not source.list_names():
        return ""
    verdicts = json.loads(VERDICTS.read_text())
    lines = [
        f"\n## {source.name}\n",
        "| environment | tasks | tools | oracle | no-op | random | audit |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in source.list_names():
        row = data.get(f"{source.name}/{name}", {})
        figures = (_number(row.get(agent)) for agent in AGENTS)
        tools = ", ".join(f"`{tool}`" for tool in row.get("tools", ()))
        verdict = verdicts.get(f"{source.name}/{name}", {}).get("verdict", "-")
        cells = [f"`{source.name}/{name}`", row.get("tasks", "-"), tools or "-", *figures, verdict]
        lines.append(f"| {' | '.join(cells)} |")
    repeats = {name: data.get(f"{source.name}/{name}", {}).get("repeats") for name in source.list_names()}
    if any(repeats.values()):
        lines += [
            "",
            "Tasks that have the prompt of an earlier one, also across splits (`check` names them):",
            "",
        ]
        lines += [f"- `{source.name}/{name}`: {count}." for name, count in repeats.items() if count]
    if source.broken:
        lines += ["", "Broken:", ""]
        lines += [f"- `{source.name}/{name}`: {source.broken[name]}." for name in sorted(source.broken)]
    return "\n".join(lines) + "\n"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def update(proofs: dict[str, Any]) -> None:
    """Take over figures that `ors-server import --check --json` printed."""
    data = read_data() if DATA.exists() else {}
    for proof in proofs["environments"]:
        if "returns" not in proof:
            continue
        means = {
            agent: None if figures is None else round(figures["mean"], 4)
            for agent, figures in proof["returns"].items()
        }
        tasks = ", ".join(f"{split} {size}" for split, size in proof["tasks"].items())
        reference = proof["reference"].removesuffix(FORCE)
        kept = {"repeats": data[reference]["repeats"]} if "repeats" in data.get(reference, {}) else {}
        data[reference] = {"tasks": tasks, "tools": proof["tools"], **means, **kept}
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(data[name])}" for name in sorted(data))
    DATA.write_text(f"{{\n{lines}\n}}\n")


def main() -> None:
    """Write the page, or check it."""
    if "--update" in sys.argv[1:]:
        update(json.loads(Path(sys.argv[-1]).read_text()))
    rendered = page(read_data())
    if "--check" in sys.argv[1:]:
        if PAGE.read_text() != rendered:
            sys.exit("docs/reference/gallery.md is not up to date: run scripts/gallery.py")
        return
    PAGE.write_text(rendered)


if __name__ == "__main__":
    main()
