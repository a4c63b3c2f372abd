"""Data conversion: between tables, JSON, settings, records and encodings."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

from ors_server_tasks.shell.draw import Draw
from ors_server_tasks.shell.exercise import (
    Choices,
    Exercise,
    Family,
    File,
    Json,
    Kind,
    Tree,
    changed,
    lines_file,
    text_file,
    without,
)
from ors_server_tasks.shell.families import conversion_settings as programs
from ors_server_tasks.shell.families import conversion_tables as tables
from ors_server_tasks.shell.families.conversion_tables import CSV_RULES, LAYOUT_IS_FREE, csv_text, program
from ors_server_tasks.shell.vocabulary import (
    CITIES,
    DEPARTMENTS,
    FIRST_NAMES,
    LAST_NAMES,
    PRODUCTS,
    sentence,
    words,
)

_SIZES = ("", ", large", ' 3"')


def csv_to_json(draw: Draw, choices: Choices) -> Exercise:
    """Turn a table with quoted fields into JSON."""
    structure, typed, only = choices
    rows = [
        {
            "id": str(number),
            "name": f"{draw.pick(LAST_NAMES)}, {draw.pick(FIRST_NAMES)}",
            "team": draw.pick(DEPARTMENTS),
            "hours": str(draw.between(0, 60)),
            "note": draw.pick(("", sentence(draw, 1, 3), f'"{sentence(draw, 1, 2)}", maybe')),
        }
        for number in draw.pick_some(range(100, 999), draw.between(12, 20))
    ]
    team = rows[0]["team"]
    selected = [row for row in rows if only == 0 or row["team"] == team]
    items: list[dict[str, Any]] = [
        {**row, "id": int(row["id"]), "hours": int(row["hours"]), "note": row["note"] or None}
        if typed
        else {**row}
        for row in selected
    ]
    value: Any = items
    if structure == 1:
        value = {
            row["id"]: {key: item[key] for key in item if key != "id"}
            for row, item in zip(selected, items, strict=True)
        }
    elif structure:
        value = _by_team(selected, adds=typed == 1)
    shape = (
        "an array with one object for each row, in the order of the rows, whose keys are the columns",
        (
            "one object whose keys are the ids (as strings) and whose values are objects with the other "
            "columns as keys"
        ),
        "one object whose keys are the teams and whose values are "
        + (
            "arrays of the names of their people, in the order of the rows",
            "the sums of their hours, as numbers",
        )[typed],
    )[structure]
    types = (
        " All values are strings, as they stand in the table.",
        (
            " id and hours are numbers (except where an id is a key), an empty note is null, everything "
            "else is a string."
        ),
    )[typed]
    ask = (
        "people.csv is a table in CSV (comma, double quotes around fields with commas or quotes, quotes "
        f"doubled), its first line names the columns. Write to people.json {shape}."
        + (f" Take only the rows whose team is {team}." if only else "")
        + ("" if structure > 1 else types)
        + f" {LAYOUT_IS_FREE}"
    )
    make = (
        "out = rows",
        "out = {str(r['id']): {k: r[k] for k in r if k != 'id'} for r in rows}",
        "out = {}\nfor r in rows: "
        + (
            "out.setdefault(r['team'], []).append(r['name'])",
            "out[r['team']] = out.get(r['team'], 0) + r['hours']",
        )[typed],
    )[structure]
    gold = program(
        "import csv, json",
        "rows = list(csv.DictReader(open('people.csv', newline='')))",
        f"rows = [r for r in rows if r['team'] == '{team}']" if only else "",
        "for r in rows: r.update(id=int(r['id']), hours=int(r['hours']), note=r['note'] or None)"
        if typed
        else "",
        make,
        "json.dump(out, open('people.json', 'w'))",
    )
    before: Tree = {"people.csv": text_file(csv_text([list(rows[0]), *(list(row.values()) for row in rows)]))}
    return Exercise(ask, before, changed(before, {"people.json": Json(value)}), gold)


def _by_team(rows: list[dict[str, str]], *, adds: bool) -> dict[str, Any]:
    """The names of each team's people, or the sum of their hours."""
    teams: dict[str, list[dict[str, str]]] = {}
    for row in rows:
        teams.setdefault(row["team"], []).append(row)
    if adds:
        return {name: sum(int(row["hours"]) for row in members) for name, members in teams.items()}
    return {name: [row["name"] for row in members] for name, members in teams.items()}


def json_to_csv(draw: Draw, choices: Choices) -> Exercise:
    """Flatten JSON into a table."""
    layout, missing, order = choices
    blank = ("", "NA")[missing]
    orders: list[dict[str, Any]] = [
        {
            "order": number,
            "customer": {
                "name": f"{draw.pick(FIRST_NAMES)} {draw.pick(LAST_NAMES)}",
                "city": draw.pick(CITIES),
            },
            "items": [
                {"article": f"{draw.pick(PRODUCTS)}{draw.pick(_SIZES)}", "count": draw.between(1, 9)}
                for _ in range(draw.between(1, 3))
            ],
            **({"coupon": draw.pick(("SPRING", "VIP,10"))} if draw.chance(50) else {}),
        }
        for number in draw.pick_some(range(1000, 9999), draw.between(8, 12))
    ]
    chosen = sorted(orders, key=lambda entry: int(entry["order"])) if order else orders
    rows: list[list[Any]] = (
        [["order", "name", "city", "coupon", "articles"]]
        + [
            [
                entry["order"],
                entry["customer"]["name"],
                entry["customer"]["city"],
                entry.get("coupon", blank),
                sum(i["count"] for i in entry["items"]),
            ]
            for entry in chosen
        ],
        [["order", "city", "article", "count", "coupon"]]
        + [
            [
                entry["order"],
                entry["customer"]["city"],
                item["article"],
                item["count"],
                entry.get("coupon", blank),
            ]
            for entry in chosen
            for item in entry["items"]
        ],
    )[layout]
    ask = (
        (
            "orders.json holds an array of orders. Write to orders.csv a line with the column names "
            f"{','.join(rows[0])} and then one line for each "
        )
        + ("order (articles is the sum of the counts of its items)", "item of each order")[layout]
        + f"; where an order has no coupon, write {('nothing', 'NA')[missing]}. Orders "
        + ("in the order of the file", "by their number, the lowest first")[order]
        + (", the items of an order in the order of the file" if layout else "")
        + f". {CSV_RULES}"
    )
    row = (
        (
            "w.writerow([o['order'], o['customer']['name'], o['customer']['city'], o.get('coupon', "
            f"'{blank}'), sum(i['count'] for i in o['items'])])"
        ),
        (
            "w.writerows([o['order'], o['customer']['city'], i['article'], i['count'], o.get('coupon', "
            f"'{blank}')] for i in o['items'])"
        ),
    )[layout]
    gold = program(
        "import csv, json",
        "orders = json.load(open('orders.json'))",
        "orders.sort(key=lambda o: o['order'])" if order else "",
        "w = csv.writer(open('orders.csv', 'w', newline=''), lineterminator='\\n')",
        f"w.writerow('{','.join(rows[0])}'.split(','))",
        f"for o in orders: {row}",
    )
    before: Tree = {"orders.json": text_file(json.dumps(orders, indent=draw.pick((None, 1, 2))) + "\n")}
    return Exercise(ask, before, changed(before, {"orders.csv": text_file(csv_text(rows))}), gold)


_ACCENTED = (
    "caf\u00e9",
    "ma\u00f1ana",
    "stra\u00dfe",
    "\u00fcber",
    "na\u00efve",
    "d\u00e9j\u00e0",
    "\u00c5ngstr\u00f6m",
    "\u00f8l",
)


def encodings(draw: Draw, choices: Choices) -> Exercise:
    """Bring texts to UTF-8 and one kind of line end."""
    source, mixed, target = choices
    name, python, iconv = (
        ("ISO 8859-1 (Latin-1)", "latin-1", "ISO-8859-1"),
        ("UTF-16 with a byte order mark", "utf-16", "UTF-16"),
        ("UTF-8 with a byte order mark", "utf-8-sig", "UTF-8"),
    )[source]
    before: Tree = {}
    after: Tree = {}
    for word in words(draw, draw.between(5, 8)):
        lines = [
            f"{sentence(draw, 2, 4)} {draw.pick(_ACCENTED)} {sentence(draw, 1, 3)}"
            for _ in range(draw.between(4, 9))
        ]
        end = draw.pick(("\r\n", "\n")) if mixed else "\r\n"
        # little-endian with its mark is spelled out, since "utf-16" writes the machine's own order
        mark = "\ufeff" if python == "utf-16" else ""
        codec = "utf-16-le" if python == "utf-16" else python
        before[f"old/{word}.txt"] = File((mark + "".join(line + end for line in lines)).encode(codec))
        after[f"{('old', 'new')[target]}/{word}.txt"] = lines_file(lines)
    ask = (
        f"The files in the folder old are texts in {name}; their lines end in "
        + (
            "carriage return and newline",
            "carriage return and newline in some files and in a newline alone in others",
        )[mixed]
        + ". "
        + (
            "Convert them in place",
            "Write them, converted, to a new folder new under the same names and leave old as it is",
        )[target]
        + ": UTF-8 without a byte order mark, lines that end in a newline alone."
    )
    strip = " | sed '1s/^\\xEF\\xBB\\xBF//'" if source > 1 else ""
    gold = (
        ("", "mkdir new; ")[target]
        + f"for f in old/*; do iconv -f {iconv} -t UTF-8 \"$f\"{strip} | tr -d '\\r' > .t; "
        + ('cat .t > "$f"; ', 'cat .t > "new/${f##*/}"; ')[target]
        + "done; rm .t"
    )
    if source > 1:
        gold = f"export LC_ALL=C; {gold}"
    return Exercise(ask, before, changed(before, after), gold, whole=("old", "new")[: target + 1])


def attachments(draw: Draw, choices: Choices) -> Exercise:
    """Unpack files that are written as text."""
    coding, report, envelope = choices
    files = {
        f"{word}.bin": "".join(chr(draw.between(0, 255)) for _ in range(draw.between(30, 160))).encode(
            "latin-1"
        )
        for word in words(draw, draw.between(4, 7))
    }
    codings: tuple[Callable[[bytes], str], ...] = (
        lambda raw: base64.b64encode(raw).decode(),
        lambda raw: raw.hex(),
        lambda raw: base64.b32encode(raw).decode(),
    )
    encoded = {name: codings[coding](raw) for name, raw in files.items()}
    width = 60
    if envelope == 0:
        lines: list[str] = []
        for name, text in encoded.items():
            pieces = [text[at : at + width] for at in range(0, len(text), width)]
            lines += [f"begin {name}", *pieces, "end", sentence(draw, 2, 4)]
        source, node = "mail.txt", lines_file(lines)
        told = (
            "between a line 'begin NAME' and the next line 'end' stands the content of a file, broken into "
            "lines; all else is of no interest"
        )
    else:
        source, node = (
            "mail.json",
            text_file(json.dumps([{"name": n, "data": t} for n, t in encoded.items()]) + "\n"),
        )
        told = "an array of objects with the name of a file and its content as data"
    word = ("base64", "hexadecimal digits", "base32")[coding]
    ask = (
        f"{source} carries files: {told}. The contents are written in {word}. Decode them into a new folder "
        "files, each under its name."
    ) + (
        (
            " Then write to sizes.txt one line for each: its name, one space, its size in bytes; sorted by "
            "name."
        )
        if report
        else ""
    )
    decode = ("base64.b64decode(t)", "bytes.fromhex(t)", "base64.b32decode(t)")[coding]
    read = (
        (
            "import re\nparts = [(n, t.replace('\\n', '')) for n, t in re.findall(r'^begin "
            "(\\S+)\\n(.*?)^end$', open('mail.txt').read(), re.M | re.S)]"
        ),
        "import json\nparts = [(o['name'], o['data']) for o in json.load(open('mail.json'))]",
    )[envelope]
    gold = program(
        "import base64, os",
        read,
        "os.mkdir('files')",
        f"for n, t in parts: open('files/' + n, 'wb').write({decode})",
        (
            "open('sizes.txt', 'w').writelines(sorted(n + ' ' + str(os.path.getsize('files/' + n)) + '\\n' "
            "for n, _ in parts))"
        )
        if report
        else "",
    )
    before: Tree = {source: node}
    after: Tree = {f"files/{name}": File(raw) for name, raw in files.items()}
    if report:
        after["sizes.txt"] = lines_file([f"{name} {len(files[name])}" for name in sorted(files)])
    return Exercise(ask, before, changed(before, after), gold, whole=("files",))


FAMILY = Family(
    "data_conversion",
    (
        Kind("csv_to_json", 2, (3, 2, 2), csv_to_json),
        Kind("csv_dialect", 2, (3, 2, 2), tables.csv_dialect, without(1)),
        Kind("turn_table", 3, (2, 2, 2), tables.turn_table),
        Kind("encodings", 1, (3, 2, 2), encodings, without(1)),
        Kind("json_to_csv", 2, (2, 2, 2), json_to_csv),
        Kind("records", 2, (2, 2, 2), tables.records, without(2)),
        Kind("totals", 1, (3, 2, 2), tables.totals, without(2)),
        Kind("settings", 3, (2, 2, 2), programs.settings),
        Kind("attachments", 2, (3, 2, 2), attachments),
        Kind("environment_file", 1, (2, 3, 2), programs.environment_file),
    ),
)
