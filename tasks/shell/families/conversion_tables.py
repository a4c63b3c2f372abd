"""Data conversion, continued: tables of all kinds."""

from __future__ import annotations

import csv
import io
import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ors_server_tasks.shell.exercise import Exercise, File, Json, Tree, changed, lines_file, text_file
from ors_server_tasks.shell.vocabulary import (
    CITIES,
    FIRST_NAMES,
    HOSTS,
    LAST_NAMES,
    MONTHS,
    PRODUCTS,
    SERVICES,
    USERS,
    day,
    sentence,
)

if TYPE_CHECKING:
    from ors_server_tasks.shell.draw import Draw
    from ors_server_tasks.shell.exercise import Choices

CSV_RULES = (
    "Put double quotes around a field only if it holds a comma or a double quote, and write a double quote "
    "within it twice."
)


LAYOUT_IS_FREE = "The layout of the JSON (spaces, lines, order of keys) does not matter."


def csv_text(rows: Sequence[Sequence[Any]], delimiter: str = ",") -> str:
    """Write rows as CSV with as few quotes as possible."""
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator="\n").writerows(rows)
    return text.getvalue()


def program(*lines: str) -> str:
    """Return the command that runs Python; empty lines are left out."""
    return "python3 - <<'END'\n" + "".join(f"{line}\n" for line in lines if line) + "END"


def csv_dialect(draw: Draw, choices: Choices) -> Exercise:
    """Bring a table from one country's habits to another's."""
    dates, negative, header = choices
    rows: list[tuple[str, str, str, str]] = []
    wanted: list[list[str]] = [["date", "payee", "amount", "city"]]
    for _ in range(draw.between(18, 28)):
        date, cents = day(draw, draw.between(2022, 2025)), draw.between(-400_000, 900_000)
        year, month, dom = date.split("-")
        payee = draw.pick(
            (
                f"{draw.pick(LAST_NAMES)}; {draw.pick(FIRST_NAMES)}",
                f"{draw.pick(LAST_NAMES)}, {draw.pick(CITIES)}",
                f'"{draw.pick(PRODUCTS)}" Ltd',
            )
        )
        city = draw.pick(CITIES)
        whole, rest = divmod(abs(cents), 100)
        local = f"{whole:,}".replace(",", ".") + f",{rest:02d}"
        signed = local if cents >= 0 else (f"-{local}", f"{local}-")[negative]
        spelled = (
            f"{dom}.{month}.{year}",
            f"{month}/{dom}/{year}",
            f"{int(dom)} {MONTHS[int(month) - 1]} {year}",
        )[dates]
        rows.append((spelled, payee, signed, city))
        wanted.append([date, payee, f"{'-' if cents < 0 else ''}{whole}.{rest:02d}", city])
    if header == 1:
        wanted = wanted[1:]
    form = ("day.month.year", "month/day/year", "day month year (3 Feb 2024)")[dates]
    ask = (
        "bank.csv is a table whose fields are separated by semicolons (double quotes around fields with "
        f"semicolons or quotes, quotes doubled): date ({form}), payee, amount (a comma before the two "
        f"decimals, dots between thousands, a minus sign {('before', 'after')[negative]} amounts below "
        "zero), city. Write it to clean.csv with commas between the fields, dates as 2024-02-03, and "
        "amounts with a point before the two decimals, nothing between thousands, and a minus sign before "
        f"amounts below zero. {CSV_RULES} "
        + (
            "The first line is date,payee,amount,city; then come the rows in the same order.",
            "There is no line with column names, in either file.",
        )[header]
        + ("" if header else " bank.csv has no line with column names.")
    )
    parse = ("%d.%m.%Y", "%m/%d/%Y", "%d %b %Y")[dates]
    gold = program(
        "import csv",
        "from datetime import datetime",
        "w = csv.writer(open('clean.csv', 'w', newline=''), lineterminator='\\n')",
        "w.writerow(['date', 'payee', 'amount', 'city'])" if header == 0 else "",
        "for d, p, a, c in csv.reader(open('bank.csv', newline=''), delimiter=';'):",
        "    a = a.replace('.', '').replace(',', '.')",
        "    if a.endswith('-'): a = '-' + a[:-1]",
        f"    w.writerow([datetime.strptime(d, '{parse}').strftime('%Y-%m-%d'), p, a, c])",
    )
    before: Tree = {"bank.csv": text_file(csv_text(rows, ";"))}
    return Exercise(ask, before, changed(before, {"clean.csv": text_file(csv_text(wanted))}), gold)


def turn_table(draw: Draw, choices: Choices) -> Exercise:
    """Turn rows into columns, or columns into rows."""
    direction, empty, extra = choices
    hosts = sorted(draw.pick_some(HOSTS, draw.between(6, 9)))
    months = list(MONTHS[: draw.between(4, 6)])
    values = {(host, month): draw.between(1, 400) for host in hosts for month in months if draw.chance(85)}
    values.update({(host, months[0]): draw.between(1, 400) for host in hosts})
    values.update({(hosts[0], month): draw.between(1, 400) for month in months})
    grid = _Grid(hosts, months, values, ("", "0")[empty], ("an empty field", "0")[empty])
    return (_widened, _lengthened)[direction](draw, grid, extra)


@dataclass(frozen=True, slots=True)
class _Grid:
    """Values of hosts in months, some missing."""

    hosts: list[str]
    months: list[str]
    values: dict[tuple[str, str], int]
    blank: str
    """What stands for a missing value in the wide table."""
    said: str
    """The same in words."""

    def wide(self) -> list[list[str]]:
        """One row for each host, after one with the names."""
        return [
            ["host", *self.months],
            *(
                [host, *(str(self.values.get((host, month), self.blank)) for month in self.months)]
                for host in self.hosts
            ),
        ]


def _widened(draw: Draw, grid: _Grid, total: int) -> Exercise:
    rows = grid.wide()
    if total:
        sums = ["total", *(str(sum(int(cell or 0) for cell in row[1:])) for row in rows[1:])]
        rows = [[*row, last] for row, last in zip(rows, sums, strict=True)]
    ask = (
        "long.tsv is a table with tabs between the columns host, month and value (named in its first "
        "line), one row for each pair. Write it to wide.tsv, with tabs as well: the first line is host and "
        f"the months {', '.join(grid.months)}, in this order, then one line for each host, sorted, with its "
        f"value for each month, or {grid.said} where there is none"
        + ("; a last column total holds the sum of the row." if total else ".")
    )
    gold = program(
        "rows = [l.rstrip('\\n').split('\\t') for l in open('long.tsv')][1:]",
        "v = {(h, m): x for h, m, x in rows}",
        f"months = {grid.months}",
        "out = [['host'] + months" + ("]", " + ['total']]")[total],
        "for h in sorted({h for h, m in v}):",
        f"    row = [v.get((h, m), '{grid.blank}') for m in months]",
        "    out.append([h] + row" + (")", " + [str(sum(int(c or 0) for c in row))])")[total],
        "open('wide.tsv', 'w').writelines('\\t'.join(r) + '\\n' for r in out)",
    )
    table = [
        ["host", "month", "value"],
        *([*pair, str(grid.values[pair])] for pair in draw.shuffled(grid.values)),
    ]
    before: Tree = {"long.tsv": _tabbed(table)}
    return Exercise(ask, before, changed(before, {"wide.tsv": _tabbed(rows)}), gold)


def _lengthened(draw: Draw, grid: _Grid, numbered: int) -> Exercise:
    head, *rest = grid.wide()
    rows = [["host", "month", "value"]] + [
        [host, month, str(grid.values[host, month])]
        for host in grid.hosts
        for month in grid.months
        if (host, month) in grid.values
    ]
    if numbered:
        rows = [[*row, str(number) if number else "number"] for number, row in enumerate(rows)]
    ask = (
        f"wide.tsv is a table with tabs between the columns host and {', '.join(grid.months)} (named in its "
        "first line). Write it to long.tsv, with tabs as well: the first line is host, month, value, then "
        "one line for each host and month, sorted by host, the months of a host in the order of the "
        f"columns; leave out pairs with {grid.said}"
        + (
            "; a fourth column number (so named in the first line) counts the lines after the first from 1."
            if numbered
            else "."
        )
    )
    gold = program(
        "rows = [l.rstrip('\\n').split('\\t') for l in open('wide.tsv')]",
        "head, rows = rows[0], sorted(rows[1:])",
        f"out = [[r[0], m, x] for r in rows for m, x in zip(head[1:], r[1:]) if x != '{grid.blank}']",
        "out = [['host', 'month', 'value']] + out",
        "out = [r + [str(i) if i else 'number'] for i, r in enumerate(out)]" if numbered else "",
        "open('long.tsv', 'w').writelines('\\t'.join(r) + '\\n' for r in out)",
    )
    before: Tree = {"wide.tsv": _tabbed([head, *draw.shuffled(rest)])}
    return Exercise(ask, before, changed(before, {"long.tsv": _tabbed(rows)}), gold)


def _tabbed(rows: list[list[str]]) -> File:
    return lines_file(["\t".join(row) for row in rows])


_BETWEEN = (r"\n\n", r"\n---\n")
"""The separator of records, as Python source."""
_FIELDS = ("name", "owner", "city", "port", "tier")


def records(draw: Draw, choices: Choices) -> Exercise:
    """Turn records of several lines into a table or JSON."""
    target, separator, comments = choices
    full_records: list[dict[str, str]] = []
    for host in draw.pick_some(HOSTS, draw.between(8, 11)):
        full = {
            "name": host,
            "owner": draw.pick(USERS),
            "city": draw.pick(CITIES),
            "port": str(draw.between(1024, 9999)),
            "tier": draw.pick(("gold", "silver", "bronze, old")),
        }
        left_out = draw.pick(("owner", "tier", "city", ""))
        full_records.append(
            {key: full[key] for key in ("name", *draw.shuffled(_FIELDS[1:])) if key != left_out}
        )
    lines: list[str] = []
    for record in full_records:
        lines += [f"{key}: {value}" for key, value in record.items()]
        if comments and draw.chance(50):
            lines.insert(len(lines) - 1, f"# port: {draw.between(1, 99)}")
        lines.append(("", "---")[separator])
    told = ("an empty line", "a line of three hyphens")[separator]
    ask = (
        f"servers.txt holds records of lines 'key: value', in any order, with {told} between records. The "
        f"keys are {', '.join(_FIELDS)}; some records lack some."
    ) + (" Lines that begin with # are comments." if comments else "")
    load = (
        "recs = [dict(l.split(': ', 1) for l in r.splitlines() if l and not l.startswith('#')) for r in "
        f"open('servers.txt').read().rstrip().split('{_BETWEEN[separator]}')]"
    )
    before: Tree = {"servers.txt": lines_file(lines[:-1])}
    ordered = sorted(full_records, key=lambda record: record["name"])
    if target == 0:
        rows = [list(_FIELDS), *([record.get(key, "") for key in _FIELDS] for record in ordered)]
        ask += (
            f" Write them to servers.csv: the first line is {','.join(_FIELDS)}, then one line for each "
            f"record, sorted by name; what is lacking is an empty field. {CSV_RULES}"
        )
        gold = program(
            "import csv",
            load,
            (
                f"w = csv.DictWriter(open('servers.csv', 'w', newline=''), {list(_FIELDS)}, restval='', "
                "lineterminator='\\n')"
            ),
            "w.writeheader()",
            "w.writerows(sorted(recs, key=lambda r: r['name']))",
        )
        return Exercise(ask, before, changed(before, {"servers.csv": text_file(csv_text(rows))}), gold)
    value = {
        record["name"]: {key: int(record[key]) if key == "port" else record.get(key) for key in _FIELDS[1:]}
        for record in ordered
    }
    ask += (
        " Write them to servers.json: one object whose keys are the names and whose values are objects "
        "with the other four keys; port is a number, what is lacking is null, everything else is a string. "
        "The layout of the JSON (spaces, lines, order of keys) does not matter."
    )
    gold = program(
        "import json",
        load,
        (
            f"out = {{r['name']: {{k: int(r[k]) if k == 'port' else r.get(k) for k in {list(_FIELDS[1:])}}} "
            "for r in recs}"
        ),
        "json.dump(out, open('servers.json', 'w'))",
    )
    return Exercise(ask, before, changed(before, {"servers.json": Json(value)}), gold)


def totals(draw: Draw, choices: Choices) -> Exercise:
    """Add up JSON lines into a table."""
    figure, key_choice, broken = choices
    key = ("service", "user")[key_choice]
    lines: list[str] = []
    sums: dict[str, list[int]] = defaultdict(list)
    services, users = draw.pick_some(SERVICES, 6), draw.pick_some(USERS, 6)
    for _ in range(draw.between(60, 90)):
        event: dict[str, Any] = {
            "user": draw.pick(users),
            "service": draw.pick(services),
            "units": draw.between(1, 90),
            "tags": [sentence(draw, 1, 2)],
        }
        sums[event[key]].append(event["units"])
        lines.append(json.dumps({name: event[name] for name in draw.shuffled(event)}))
        if broken and draw.chance(12):
            lines.append(lines[-1][: draw.between(5, len(lines[-1]) - 2)])
    values = {name: (sum(amounts), max(amounts), len(amounts))[figure] for name, amounts in sums.items()}
    what = ("the sum of units", "the greatest units", "the number of events")[figure]
    ask = (
        "events.jsonl holds one JSON object per line, with the keys user, service, units and tags in any "
        f"order. Write to totals.tsv one line for each {key}, sorted: the {key}, one tab, {what} of its "
        "events." + (" Some lines are cut off and no longer JSON; leave them out." if broken else "")
    )
    gold = program(
        "import json",
        "v = {}",
        "for l in open('events.jsonl'):",
        "    try: e = json.loads(l)",
        "    except ValueError: continue",
        f"    v.setdefault(e['{key}'], []).append(e['units'])",
        (
            f"open('totals.tsv', 'w').writelines(f'{{k}}\\t{{{('sum', 'max', 'len')[figure]}(v[k])}}\\n' "
            "for k in sorted(v))"
        ),
    )
    before: Tree = {"events.jsonl": lines_file(lines)}
    return Exercise(
        ask,
        before,
        changed(before, {"totals.tsv": lines_file([f"{name}\t{values[name]}" for name in sorted(values)])}),
        gold,
    )
