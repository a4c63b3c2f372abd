"""Audits the bundled environments and those of the gallery, and writes docs/reference/audit-verdicts.md.

Usage:

    python scripts/audit_verdicts.py                     write the page from its JSON file
    python scripts/audit_verdicts.py --check             say whether the page is up to date
    python scripts/audit_verdicts.py --missing           audit what has no verdict yet
    python scripts/audit_verdicts.py qa textarena/...    audit these again
"""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Any

ROOT = Path(__file__).parents[1]
DATA = ROOT / "docs/reference/audit-verdicts.json"
PAGE = ROOT / "docs/reference/audit-verdicts.md"
GALLERY = ROOT / "docs/reference/gallery.json"
BUNDLED = (
    "math_word_problems",
    "qa",
    "code",
    "shell",
    "support_desk",
    "webshop",
    "scienceworld",
    "alfworld",
)
AT_ONCE = 2
SECONDS = 1200
SHOWN = 160
"""Characters of an argument that the page shows."""
KEPT = 2000
"""Characters of an argument that the data keep."""
HEAD = """# Verdicts

<!-- Written by scripts/audit_verdicts.py; audit again with it, and do not edit. -->

What [`ors-server audit`](../audit.md) found in the bundled environments and in the
[gallery](gallery.md), with seed 0 and the default number of tasks. A class that could not be judged is
neither passed nor failed. To see a finding, and to record its calls as an episode that can be replayed:

```
ors-server audit ENVIRONMENT --only CLASS --record findings.sqlite
```

"""


def read_data() -> dict[str, dict[str, Any]]:
    """Read the verdicts, by reference."""
    data: dict[str, dict[str, Any]] = json.loads(DATA.read_text()) if DATA.exists() else {}
    return data


def write_data(data: dict[str, dict[str, Any]]) -> None:
    """Write the verdicts, a line for each environment."""
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(data[name])}" for name in sorted(data))
    DATA.write_text(f"{{\n{lines}\n}}\n")


def audit(reference: str) -> dict[str, Any] | str:
    """Audit an environment in a process of its own; return its row, or why there is none."""
    command = [sys.executable, "-m", "ors_server.cli.main", "audit", reference, "--json"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return f"not ended after {SECONDS} s"
    try:
        return row_of(json.loads(done.stdout))
    except json.JSONDecodeError:
        return (done.stderr or done.stdout)[-400:].strip()


def row_of(report: dict[str, Any]) -> dict[str, Any]:
    """Return what the page needs of a report."""
    row: dict[str, Any] = {"tasks": report["tasks"], "gold": report["gold_return"], "fail": {}, "warn": {}}
    for each in report["classes"]:
        if each["verdict"] in {"fail", "warn"}:
            row[each["verdict"]][each["id"]] = _finding(each)
    row["not_judged"] = {
        each["id"]: each["reason"] for each in report["classes"] if each["verdict"] == "not_judged"
    }
    words = (("fail", "fails"), ("warn", "warns"))
    row["verdict"] = (
        "; ".join(f"{word} {', '.join(row[kind])}" for kind, word in words if row[kind]) or "pass"
    )
    return row


def _finding(each: dict[str, Any]) -> dict[str, Any]:
    first = each["findings"][0]
    finding: dict[str, Any] = {"message": first["message"][:KEPT]}
    transcript = first["transcript"]
    if transcript is not None:
        finding |= {name: transcript[name] for name in ("split", "index", "earned", "gold_return")}
        finding["calls"] = [[call["tool"], _cut(call["arguments"])] for call in transcript["calls"][:30]]
    return finding


def _cut(arguments: dict[str, Any]) -> dict[str, Any]:
    return {
        name: f"{value[:KEPT]}..." if isinstance(value, str) and len(value) > KEPT else value
        for name, value in arguments.items()
    }


def page(data: dict[str, dict[str, Any]]) -> str:
    """Render the page."""
    return HEAD + _bundled(data) + _others(data)


def _bundled(data: dict[str, dict[str, Any]]) -> str:
    lines = [
        "## Bundled environments",
        "",
        "| environment | tasks | verdict | not judged |",
        "|---|---|---|---|",
    ]
    for name in BUNDLED:
        row = data.get(name)
        cells = ["-", "-", "-"]
        if row is not None:
            cells = [str(row["tasks"]), row["verdict"], ", ".join(row["not_judged"]) or "-"]
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n" + "".join(_details(name, data.get(name)) for name in BUNDLED)


def _others(data: dict[str, dict[str, Any]]) -> str:
    found: dict[str, list[str]] = {}
    for name in data:
        if "/" in name:
            found.setdefault(name.partition("/")[0], []).append(name)
    lines = ["", "## Environments of other packages", ""]
    lines += ["| source | audited | pass | warn | fail |", "|---|---|---|---|---|"]
    for source, names in sorted(found.items()):
        failed = sum(bool(data[name]["fail"]) for name in names)
        warned = sum(bool(data[name]["warn"]) and not data[name]["fail"] for name in names)
        lines.append(f"| {source} | {len(names)} | {len(names) - failed - warned} | {warned} | {failed} |")
    details = [_details(name, data[name]) for names in found.values() for name in sorted(names)]
    return "\n".join(lines) + "\n" + "".join(details)


def _details(name: str, row: dict[str, Any] | None) -> str:
    if row is None or not (row["fail"] or row["warn"]):
        return ""
    lines = ["", f"### `{name}`", ""]
    for kind in ("fail", "warn"):
        for hack_class, finding in row[kind].items():
            lines.append(f"- **{hack_class} {kind}s**: {_text(finding['message'])}.{_transcript(finding)}")
    return "\n".join(lines) + "\n"


def _transcript(finding: dict[str, Any]) -> str:
    if "split" not in finding:
        return ""
    calls = ", ".join(f"{tool}({_arguments(arguments)})" for tool, arguments in finding["calls"]) or "no call"
    gold = "" if finding["gold_return"] is None else f", compared with {finding['gold_return']:.3g}"
    earned = "" if finding["earned"] is None else f" earns {finding['earned']:.3g}{gold}"
    task = f"task {finding['index']} of {finding['split']}"
    return f" On {task}, {_code(calls)}{earned}."


def _arguments(arguments: dict[str, Any]) -> str:
    return ", ".join(f"{name}={_short(value)}" for name, value in arguments.items())


def _short(value: Any) -> str:
    shown = json.dumps(value, ensure_ascii=True)
    return shown if len(shown) <= SHOWN else f"{shown[:SHOWN]}..."


def _code(text: str) -> str:
    """Return a text as code in Markdown, whatever it has in it."""
    text = text if len(text) <= 4 * SHOWN else f"{text[: 4 * SHOWN]}..."
    ticks = "``" if "`" in text else "`"
    return f"{ticks} {text} {ticks}" if ticks == "``" else f"`{text}`"


def _text(message: str) -> str:
    plain = " ".join(message.split()).rstrip(".")
    escaped = "".join(f"\\{sign}" if sign in "<>*_[]`|\\" else sign for sign in plain)
    return escaped if len(escaped) <= 3 * SHOWN else f"{escaped[: 3 * SHOWN]}..."


def audit_all(references: list[str]) -> None:
    """Audit environments, two at a time, and keep each row as soon as it is there."""
    lock = Lock()

    def audit_one(reference: str) -> None:
        row = audit(reference)
        with lock:
            if isinstance(row, str):
                print(f"{reference}: no verdict: {row}", flush=True)
                return
            print(f"{reference}: {row['verdict']}", flush=True)
            write_data(read_data() | {reference: row})

    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(audit_one, references))


def main() -> None:
    """Audit, write the page, or check it."""
    given = sys.argv[1:]
    if given == ["--missing"]:
        known = read_data()
        audit_all([name for name in (*BUNDLED, *json.loads(GALLERY.read_text())) if name not in known])
    elif given and given != ["--check"]:
        audit_all(given)
    rendered = page(read_data())
    if given == ["--check"]:
        if PAGE.read_text() != rendered:
            sys.exit("docs/reference/audit-verdicts.md is not up to date: run scripts/audit_verdicts.py")
        return
    PAGE.write_text(rendered)


if __name__ == "__main__":
    main()
