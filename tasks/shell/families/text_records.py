"""Text processing, continued: tables, headings, templates, and names in programs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ors_server_tasks.shell.exercise import Exercise, Tree, changed, lines_file, text_file
from ors_server_tasks.shell.vocabulary import (
    CITIES,
    FIRST_NAMES,
    LAST_NAMES,
    PRODUCTS,
    USERS,
    day,
    sentence,
    words,
)

if TYPE_CHECKING:
    from ors_server_tasks.shell.draw import Draw
    from ors_server_tasks.shell.exercise import Choices


def join_tables(draw: Draw, choices: Choices) -> Exercise:
    """Bring two tables together by a key."""
    join, order, layout = choices
    ids = draw.pick_some(range(1000, 9999), 24)
    names = {number: f"{draw.pick(FIRST_NAMES)} {draw.pick(LAST_NAMES)}" for number in ids}
    buyers = draw.pick_some(ids, 14) + draw.pick_some(range(10_000, 10_099), 4)
    sales = [
        (draw.pick(buyers), draw.pick(PRODUCTS), 100 * number + draw.between(1, 99))
        for number in draw.shuffled(range(1, 31))
    ]
    task, sorting, sort = _JOINS[join]
    ask = (
        "customers.txt holds lines 'number;name', sales.txt holds lines "
        f"'{_SALES[layout].format('number', 'item', 'amount')}' (the number is the customer's). Write to "
        f"joined.txt {task}. Sorted by {sorting[order]}."
    )
    number, item, amount = (("$1", "$2", "$3"), ("$2", "$3", "$1"))[layout]
    both = "NR == FNR {n[$1] = $2; next}"
    program = (
        f"{both} {number} in n {{print n[{number}], {item}, {amount}}}",
        f'{both} {{print ({number} in n) ? n[{number}] : "-", {item}, {amount}}}',
        f"NR == FNR {{s[{number}]; next}} !($1 in s)",
    )[join]
    files = ("customers.txt sales.txt", "sales.txt customers.txt")[join == len(_JOINS) - 1]
    gold = (
        f"export LC_ALL=C; awk -F';' -v OFS=';' '{program}' {files} | sort -t';' {sort[order]} > joined.txt"
    )
    before: Tree = {
        "customers.txt": lines_file([f"{number};{name}" for number, name in names.items()]),
        "sales.txt": lines_file([_SALES[layout].format(*sale) for sale in sales]),
    }
    rows = _joined(names, sales, choices)
    return Exercise(ask, before, changed(before, {"joined.txt": lines_file(rows)}), gold)


_SALES = ("{0};{1};{2}", "{2};{0};{1}")
_BY_SALE = (
    "amount, the lowest first (no two are equal)",
    "item, lines with the same item by amount, the lowest first",
)
_BY_SALE_SORT = ("-k3,3n", "-k2,2 -k3,3n")
_JOINS = (
    (
        "one line for each sale to a customer that stands in customers.txt: name;item;amount",
        _BY_SALE,
        _BY_SALE_SORT,
    ),
    (
        "one line for each sale: name;item;amount, with - as the name of a customer not in customers.txt",
        _BY_SALE,
        _BY_SALE_SORT,
    ),
    (
        "one line for each customer without any sale: number;name",
        ("number, the lowest first", "name, lines with the same name by number"),
        ("-k1,1n", "-k2,2 -k1,1n"),
    ),
)


def _joined(names: dict[int, str], sales: list[tuple[int, str, int]], choices: Choices) -> list[str]:
    join, order, _ = choices
    if join == len(_JOINS) - 1:
        idle = sorted(names.keys() - {buyer for buyer, _, _ in sales})
        return [
            f"{number};{names[number]}"
            for number in (idle, sorted(idle, key=lambda customer: names[customer]))[order]
        ]
    wanted = sorted((sale for sale in sales if join == 1 or sale[0] in names), key=lambda sale: sale[2])
    if order == 1:
        wanted.sort(key=lambda sale: sale[1])
    return [f"{names.get(buyer, '-')};{item};{amount}" for buyer, item, amount in wanted]


def table_of_contents(draw: Draw, choices: Choices) -> Exercise:
    """List a document's headings, without what only looks like one."""
    depth_choice, fences, layout = choices
    deepest = 2 + depth_choice
    lines, headings = _document(draw, has_fences=fences == 1)
    shown = [(level, title) for level, title in headings if level <= deepest]
    style = (
        "two spaces for each level below the first, a hyphen, one space, the title",
        "the number of # signs, one tab, the title",
        (
            "the title, then a space and, in parentheses, its link: a # and the title in lower case with "
            "each space replaced by a hyphen, as in: Early River (#early-river)"
        ),
    )[layout]
    ask = (
        "guide.md is a Markdown document. A heading is a line of one or more # signs, one space and a "
        f"title. Write to toc.txt one line for each heading with at most {deepest} # signs, in the order of "
        f"the document: {style}."
        + (
            " Lines within code blocks (between a line ``` and the next line ```) are not headings."
            if fences
            else ""
        )
    )
    rows = [
        (
            f"{'  ' * (level - 1)}- {title}",
            f"{level}\t{title}",
            f"{title} (#{title.lower().replace(' ', '-')})",
        )[layout]
        for level, title in shown
    ]
    action = (
        'sub(/^#+ /, "", t); s = ""; for (i = 1; i < n; i++) s = s "  "; print s "- " t',
        'sub(/^#+ /, "", t); print n "\\t" t',
        'sub(/^#+ /, "", t); l = tolower(t); gsub(/ /, "-", l); print t " (#" l ")"',
    )[layout]
    gold = (
        'awk \'/^```/ {f = !f; next} !f && /^#+ / {n = index($0, " ") - 1; t = $0; '
        f"if (n <= {deepest}) {{{action}}}}}' guide.md > toc.txt"
    )
    before: Tree = {"guide.md": lines_file(lines)}
    return Exercise(ask, before, changed(before, {"toc.txt": lines_file(rows)}), gold)


def _document(draw: Draw, *, has_fences: bool) -> tuple[list[str], list[tuple[int, str]]]:
    """Lines of a document, and its headings as (level, title)."""
    lines: list[str] = []
    headings: list[tuple[int, str]] = []
    level = 1
    for number in range(draw.between(14, 20)):
        title = " ".join(word.capitalize() for word in words(draw, draw.between(1, 3)))
        level = 1 if number == 0 else min(4, draw.between(1, level + 1))
        headings.append((level, title))
        lines += ["#" * level + f" {title}", "", *(sentence(draw) for _ in range(draw.between(1, 4)))]
        lines.append(f"#{draw.pick(USERS)} wrote this")
        if has_fences and number % 3 == 1:
            lines += ["```", f"# {sentence(draw, 1, 3)}", "make all", "```"]
        lines.append("")
    return lines[:-1], headings


def letters(draw: Draw, choices: Choices) -> Exercise:
    """Fill a template in, once for each row of a table."""
    mark, naming, table = choices
    left, right = (("{{", "}}"), ("@", "@"))[mark]
    delimiter, said = ((",", "commas"), ("\t", "tabs"), ("|", "vertical bars"))[table]
    rows = [
        (user, draw.pick(FIRST_NAMES), draw.pick(CITIES), day(draw), str(draw.between(5, 500)))
        for user in draw.pick_some(USERS, draw.between(7, 12))
    ]
    fields = ("login", "name", "city", "date", "amount")
    template = (
        f"Dear {left}name{right},\n\n{sentence(draw)}.\nYour order of {left}date{right} is on its way to "
        f"{left}city{right}.\n{left}name{right}, please pay {left}amount{right} EUR.\n{sentence(draw)}\n"
    )

    def fill(row: tuple[str, ...]) -> str:
        return re.sub(
            f"{re.escape(left)}([a-z]+){re.escape(right)}", lambda m: row[fields.index(m[1])], template
        )

    def name(row: tuple[str, ...]) -> str:
        return (f"out/{row[0]}.txt", f"out/{row[3]}_{row[0]}.txt")[naming]

    ask = (
        f"people.txt is a table; its columns are separated by {said}, its first line names them. For each "
        f"person make a copy of template.txt in which every {left}column{right} is replaced by the person's "
        f"value of this column, and write it to {('out/LOGIN.txt', 'out/DATE_LOGIN.txt')[naming]} in a new "
        f"folder out (with the person's login{' and date' if naming else ''})."
    )
    target = ("${login}", "${date}_${login}")[naming]
    swaps = "".join(f' -e "s/{left}{field}{right}/${{{field}}}/g"' for field in fields)
    gold = (
        f"mkdir out; tail -n +2 people.txt | while IFS='{delimiter}' read -r {' '.join(fields)}; do "
        f'sed{swaps} template.txt > "out/{target}.txt"; done'
    )
    before: Tree = {
        "people.txt": lines_file([delimiter.join(row) for row in (fields, *rows)]),
        "template.txt": text_file(template),
    }
    after = changed(before, {name(row): text_file(fill(row)) for row in rows})
    return Exercise(ask, before, after, gold, whole=("out",))


def rename_symbol(draw: Draw, choices: Choices) -> Exercise:
    """Rename a name in programs, whole words only."""
    report, skips, extension_choice = choices
    extension, other = (("py", "txt"), ("sh", "md"), ("c", "h.in"))[extension_choice]
    old, new, spare = (f"{a}_{b}" for a, b in zip(words(draw, 3), words(draw, 3), strict=True))
    near = (f"{old}s", f"my_{old}", f"{old}_2", f"{old}2", old.capitalize(), f"{old}er")
    folders = ("src", "src/core", "tools", "legacy")

    def program() -> str:
        choices_here = (spare, draw.pick(near)) if draw.chance(30) else (old, spare, old, draw.pick(near))
        spots = [draw.pick(choices_here) for _ in range(draw.between(10, 18))]
        rows = [
            draw.pick(
                ("{0} = {1}({2})", "print({0}, {0}[{2}])", "call({0}); x.{0} = {1}", "if {0}: {0}+={2}")
            ).format(spot, spare, draw.between(1, 99))
            for spot in spots
        ]
        return "".join(f"{row}\n" for row in rows)

    paths = [
        f"{folders[number % 4]}/{word}.{(extension, extension, other)[number % 3]}"
        for number, word in enumerate(words(draw, 12))
    ]
    texts = {path: program() for path in paths}
    after: Tree = {}
    for path, text in texts.items():
        is_meant = path.endswith(f".{extension}") and not (skips == 1 and path.startswith("legacy/"))
        after[path] = text_file(re.sub(rf"\b{old}\b", new, text) if is_meant else text)
    skip = " except those below legacy" if skips == 1 else ""
    ask = (
        f"Rename {old} to {new} in all files below the current directory whose names end in "
        f".{extension}{skip}. Only whole names are meant: where the character before or after is a letter, "
        "a digit or an underscore, it is another name. Change nothing else and no other file."
        + (
            " Write the paths of the files that you changed (such as src/x) to changed.txt, sorted."
            if report
            else ""
        )
    )
    prune = " -not -path 'legacy/*'" if skips == 1 else ""
    find = f"find src tools legacy -type f -name '*.{extension}'{prune}"
    gold = f"{find} -exec sed -i 's/\\b{old}\\b/{new}/g' {{}} +"
    if report:
        gold = f"{find} -exec grep -lw {old} {{}} + | LC_ALL=C sort > changed.txt; {gold}"
        after["changed.txt"] = lines_file(
            sorted(path for path, text in texts.items() if after[path] != text_file(text))
        )
    before: Tree = {path: text_file(text) for path, text in texts.items()}
    return Exercise(ask, before, after, gold, whole=folders)
