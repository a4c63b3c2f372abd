"""Text processing: counting, comparing, rewriting and joining lines and words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from ors_server_tasks.shell.draw import Draw
from ors_server_tasks.shell.exercise import (
    Choices,
    Exercise,
    Family,
    Kind,
    Tree,
    changed,
    lines_file,
    text_file,
    without,
)
from ors_server_tasks.shell.families import text_records as records
from ors_server_tasks.shell.vocabulary import (
    CITIES,
    DEPARTMENTS,
    LAST_NAMES,
    PRODUCTS,
    USERS,
    WORDS,
    ip_address,
    sentence,
    words,
)


def _story(draw: Draw) -> str:
    """Prose of few different words, some capitalised, with punctuation."""
    vocabulary = words(draw, 24)

    def line() -> str:
        parts = [draw.pick(vocabulary) for _ in range(draw.between(6, 11))]
        styled = [word.capitalize() if draw.chance(20) else word for word in parts]
        return ", ".join((" ".join(styled[:3]), " ".join(styled[3:]))) + draw.pick((".", "!", ".", "?"))

    return "".join(f"{line()}\n" for _ in range(draw.between(40, 60)))


def word_counts(draw: Draw, choices: Choices) -> Exercise:
    """Count the words of a text."""
    folds, selection, layout = choices
    name, story = draw.pick(("story.txt", "speech.txt", "notes.txt")), _story(draw)
    matches = re.findall(r"[A-Za-z]+", story.lower() if folds == 0 else story)
    counts = Counter(matches)
    top, least = draw.between(5, 9), draw.between(15, 19)
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    chosen = (
        ranked[:top],
        sorted(word for word in counts if counts[word] >= least),
        sorted(word for word in counts if counts[word] % 2),
    )[selection]
    row = ("{word} {count}", "{count}\t{word}", "{word},{count}")[layout]
    what = (
        f"the {top} most frequent words, the most frequent first, words of equal frequency sorted",
        f"every word that occurs at least {least} times, sorted by word",
        "every word that occurs an odd number of times, sorted by word",
    )[selection]
    ask = (
        f"Count the words of {name}. A word is a run of letters (A-Z, a-z), as long as possible. "
        + (
            "Case does not matter: count and write words in lower case. "
            if folds == 0
            else "Case matters: 'The' and 'the' are two words. "
        )
        + f"Write to counts.txt {what}, one per line, as "
        + ("the word, one space, its count", "its count, one tab, the word", "the word, a comma, its count")[
            layout
        ]
        + "."
    )
    rank = (
        f"sort -k2,2nr -k1,1 | head -n {top}",
        f"awk '$2 >= {least}' | sort",
        "awk '$2 % 2' | sort",
    )[selection]
    shape = ('$1 " " $2', '$2 "\\t" $1', '$1 "," $2')[layout]
    fold = " | tr A-Z a-z" if folds == 0 else ""
    gold = (
        f"export LC_ALL=C; grep -oE '[A-Za-z]+' {name}{fold} | sort | uniq -c | awk '{{print $2, $1}}' | "
        f"{rank} | awk '{{print {shape}}}' > counts.txt"
    )
    before: Tree = {name: text_file(story)}
    lines = [row.format(word=word, count=counts[word]) for word in chosen]
    return Exercise(ask, before, changed(before, {"counts.txt": lines_file(lines)}), gold)


_SET_RULES: tuple[tuple[str, Callable[[set[str], set[str]], set[str]], str], ...] = (
    ("stand in both lists", lambda first, second: first & second, "comm -12 .a .b"),
    ("stand in at least one of the lists", lambda first, second: first | second, "sort -u .a .b"),
    ("stand in {a} but not in {b}", lambda first, second: first - second, "comm -23 .a .b"),
    (
        "stand in exactly one of the lists",
        lambda first, second: first ^ second,
        "comm -3 .a .b | tr -d '\\t'",
    ),
)


def compare_lists(draw: Draw, choices: Choices) -> Exercise:
    """Take the common or the different entries of two lists."""
    rule, order, style = choices
    pool = [
        f"{first}-{second}"
        for first, second in zip(draw.shuffled(WORDS)[:60], draw.shuffled(WORDS)[:60], strict=True)
    ]
    a, b = draw.pick((("monday.txt", "tuesday.txt"), ("old.txt", "new.txt"), ("invited.txt", "came.txt")))
    lists = [draw.shuffled(draw.pick_some(pool, 38) + draw.pick_some(pool, 6)) for _ in range(2)]
    text, apply, command = _SET_RULES[rule]
    result = sorted(apply(set(lists[0]), set(lists[1])), reverse=order == 1)
    note = ""
    if style == 1:
        lists = [[_roughened(draw, entry) for entry in entries] for entries in lists]
        note = (
            "The lists were typed by hand: ignore spaces at the beginning and end of a line, and the "
            "difference between upper and lower case; write entries in lower case without those spaces. "
        )
    ask = (
        f"{a} and {b} hold one entry per line, in no order, some more than once. {note}Write to result.txt "
        f"the entries that {text.format(a=a, b=b)}, each once, "
        + ("sorted." if order == 0 else "sorted in reverse (the greatest first).")
    )
    tidy = "" if style == 0 else " | tr A-Z a-z | sed -E 's/^ +//; s/ +$//'"
    back = " | sort -r" if order == 1 else ""
    gold = (
        f"export LC_ALL=C; cat {a}{tidy} | sort -u > .a; cat {b}{tidy} | sort -u > .b; "
        f"{command}{back or ' | sort'} > result.txt; rm .a .b"
    )
    before: Tree = {a: lines_file(lists[0]), b: lines_file(lists[1])}
    return Exercise(ask, before, changed(before, {"result.txt": lines_file(result)}), gold)


def _roughened(draw: Draw, entry: str) -> str:
    cased = draw.pick((entry, entry.upper(), entry.capitalize()))
    return " " * draw.between(0, 2) + cased + " " * draw.between(0, 2)


def _email(draw: Draw) -> str:
    return (
        f"{draw.pick(USERS)}.{draw.pick(LAST_NAMES).lower()}{draw.between(1, 99)}@{draw.pick(WORDS)}.example"
    )


def _phone(draw: Draw) -> str:
    return f"+{draw.between(10, 98)}-{draw.between(100, 999)}-{draw.between(1000, 9999)}"


@dataclass(frozen=True, slots=True)
class _Secret:
    """A sort of text that is to be hidden."""

    what: str
    make: Callable[[Draw], str]
    pattern: str
    """For `re` and for `sed -E` alike."""
    replacements: tuple[tuple[str, str], tuple[str, str]]
    """Two ways to hide it: the replacement, and the same in words."""
    decoy: str
    """What looks similar and stays."""


_SECRETS = (
    _Secret(
        "e-mail address (letters a-z, digits and dots, then @, then letters a-z and dots)",
        _email,
        r"([a-z])[a-z0-9.]*@([a-z.]+)",
        (
            ("[EMAIL]", "with [EMAIL]"),
            (
                r"\1***@\2",
                "with its first letter, three asterisks, and all from the @ on, as in x***@host.example",
            ),
        ),
        "at noon @ home",
    ),
    _Secret(
        "IPv4 address (four decimal numbers with dots between)",
        ip_address,
        r"([0-9]+\.[0-9]+)\.[0-9]+\.[0-9]+",
        (("[IP]", "with [IP]"), (r"\1.x.x", "with its first two numbers followed by .x.x, as in 10.2.x.x")),
        "v1.20.3",
    ),
    _Secret(
        "phone number (a plus sign and two digits, a hyphen, three digits, a hyphen, four digits)",
        _phone,
        r"\+[0-9]{2}-[0-9]{3}-[0-9]{2}([0-9]{2})",
        (
            ("[PHONE]", "with [PHONE]"),
            (r"***\1", "with three asterisks and its last two digits, as in ***07"),
        ),
        "item 55-123-8812",
    ),
)


def redact(draw: Draw, choices: Choices) -> Exercise:
    """Hide personal data in several files."""
    which, style, target = choices
    secret = _SECRETS[which]
    replacement, said = secret.replacements[style]
    folder = ("inbox", "clean")[target]
    before: Tree = {}
    after: Tree = {}
    for word in words(draw, draw.between(4, 6)):
        letter = _letter(draw, secret)
        before[f"inbox/{word}.txt"] = text_file(letter)
        after[f"{folder}/{word}.txt"] = text_file(re.sub(secret.pattern, replacement, letter))
    where = (
        "Change the files in place.",
        (
            "Leave these files as they are; write the changed copies, with the same names, to a new folder "
            "clean."
        ),
    )[target]
    ask = (
        f"In every file of the folder inbox, replace each {secret.what} {said}. Change nothing else. {where}"
    )
    rule = f"'s/{secret.pattern}/{replacement}/g'"
    gold = (
        f"sed -E -i {rule} inbox/*.txt",
        f'mkdir clean; for f in inbox/*.txt; do sed -E {rule} "$f" > clean/"${{f##*/}}"; done',
    )[target]
    return Exercise(ask, before, changed(before, after), gold, whole=("inbox", "clean")[: target + 1])


def _letter(draw: Draw, secret: _Secret) -> str:
    rows = [sentence(draw) for _ in range(draw.between(8, 14))]
    for _ in range(draw.between(2, 5)):
        spot = draw.below(len(rows))
        end = draw.pick((secret.make(draw), "twice"))
        rows[spot] = f"{sentence(draw, 2, 4)} {secret.make(draw)} {rows[spot]} {end}"
    rows[draw.below(len(rows))] += f" {secret.decoy} {sentence(draw, 1, 3)}"
    return "".join(f"{row}\n" for row in rows)


def columns(draw: Draw, choices: Choices) -> Exercise:
    """Select, filter and reorder the columns of a table."""
    delimiter, condition, order = choices
    sign, said = ((":", "a colon"), ("|", "a vertical bar"), (";", "a semicolon"))[delimiter]
    rows = [
        (
            name,
            draw.pick(DEPARTMENTS),
            draw.pick(CITIES),
            draw.between(1995, 2024),
            draw.between(21, 98) * 1000 + number,
        )
        for number, name in enumerate(draw.pick_some((f"{u}{n}" for u in USERS for n in (1, 2, 3)), 45))
    ]
    department, pay = draw.pick(DEPARTMENTS), draw.between(40, 60) * 1000
    year = draw.between(2005, 2015)
    keep: tuple[tuple[str, Callable[[tuple[str, str, str, int, int]], bool], str], ...] = (
        (f"whose department is not {department}", lambda row: row[1] != department, f'$2 != "{department}"'),
        (f"who earn more than {pay}", lambda row: row[4] > pay, f"$5 > {pay}"),
        (f"who started in {year} or later", lambda row: row[3] >= year, f"$4 >= {year}"),
    )
    text, test, awk = keep[condition]
    chosen = sorted(row for row in rows if test(row))
    if order == 1:
        chosen.sort(key=lambda row: -row[4])
    ask = (
        f"staff.db is a table whose columns are separated by {said}: login, department, city, year of "
        f"start, salary. Write to report.txt one line for each person {text}: salary, login and city, in "
        "this order, separated by one tab, sorted by "
        + ("login." if order == 0 else "salary, the highest first (no two people earn the same).")
    )
    sort = ("sort -t'\t' -k2,2", "sort -t'\t' -k1,1nr")[order]
    gold = (
        f"export LC_ALL=C; awk -F'[{sign}]' -v OFS='\\t' '{awk} {{print $5, $1, $3}}' staff.db | {sort} > "
        "report.txt"
    )
    before: Tree = {"staff.db": lines_file([sign.join(map(str, row)) for row in rows])}
    report = lines_file([f"{row[4]}\t{row[0]}\t{row[2]}" for row in chosen])
    return Exercise(ask, before, changed(before, {"report.txt": report}), gold)


def dedupe(draw: Draw, choices: Choices) -> Exercise:
    """Remove repeated lines and keep the order of the others."""
    keeps, key, blank = choices
    ids = [f"{draw.pick(PRODUCTS)}-{number}" for number in range(100, 125)]
    rows = [f"{draw.pick(ids)} {draw.pick(CITIES)}" for _ in range(90)]
    if blank == 1:
        for _ in range(8):
            rows.insert(draw.below(len(rows)), draw.pick(("", f"# {sentence(draw, 2, 3)}")))

    def keep_first(entries: list[str]) -> list[str]:
        seen: set[str] = set()
        first_rows: list[str] = []
        for row in entries:
            mark = row.split(" ")[0] if key == 1 else row
            is_exempt = blank == 1 and (not row or row.startswith("#"))
            if is_exempt or mark not in seen:
                first_rows.append(row)
            seen.add(mark)
        return first_rows

    result = keep_first(rows) if keeps == 0 else keep_first(rows[::-1])[::-1]
    ask = (
        "stock.txt holds lines of an article number, one space and a city. Change it in place so that "
        + (
            "no line occurs twice: "
            if key == 0
            else "no article number (all before the space) occurs twice: "
        )
        + ("of equal ones" if key == 0 else "of lines with the same number")
        + (" the first stays" if keeps == 0 else " the last stays")
        + ". The lines that stay keep their order."
        + (" Empty lines and lines that begin with # all stay where they are." if blank == 1 else "")
    )
    exempt = "/^#/ || /^$/ || " if blank == 1 else ""
    awk = f"awk '{exempt}!seen[{'$1' if key == 1 else '$0'}]++'"
    back = "" if keeps == 0 else "tac | "
    gold = f"cat stock.txt | {back}{awk}{' | tac' if keeps else ''} > .new && cat .new > stock.txt; rm .new"
    before: Tree = {"stock.txt": lines_file(rows)}
    return Exercise(ask, before, {"stock.txt": lines_file(result)}, gold)


_TAGS = (("TODO",), ("FIXME",), ("TODO", "FIXME"))


def todo_list(draw: Draw, choices: Choices) -> Exercise:
    """Collect remarks from a source tree, with files and line numbers."""
    tags, layout, skips = choices
    wanted = _TAGS[tags]
    folders = ("src", "src/core", "tests", "vendor", "vendor/lib")
    paths = sorted(f"{draw.pick(folders)}/{word}.{draw.pick(('py', 'sh'))}" for word in words(draw, 9))
    paths += [f"vendor/{draw.pick(WORDS)}_kit.py", f"src/{draw.pick(WORDS)}_main.py"]
    before: Tree = {}
    rows: list[tuple[str, int, str, str]] = []
    for path in sorted(set(paths)):
        lines = [f"{draw.pick(WORDS)} = {draw.between(1, 99)}" for _ in range(draw.between(8, 20))]
        for number in sorted(draw.pick_some(range(len(lines)), draw.between(1, 4))):
            tag, text = draw.pick(("TODO", "FIXME", "NOTE", "TODOS")), sentence(draw, 2, 5)
            lines[number] += f"  # {tag}: {text}"
            if tag in wanted and not (skips == 1 and path.startswith("vendor/")):
                rows.append((path, number + 1, tag, text))
        before[path] = lines_file(lines)
    result = [
        (f"{path}:{number}: {text}", f"{path}\t{number}\t{tag}\t{text}")[layout]
        for path, number, tag, text in rows
    ]
    marks = " or ".join(f"'# {tag}: '" for tag in wanted)
    ask = (
        "Search all files below the current directory"
        + (" except those below vendor" if skips == 1 else "")
        + (
            f" for remarks: the text from {marks} to the end of the line. Write to remarks.txt one line for "
            "each: "
        )
        + (
            "path:line: text, such as src/a.py:12: check this (without the mark)",
            "path, line number, TODO or FIXME, text, separated by one tab each (the text without the mark)",
        )[layout]
        + ". The path is relative to the current directory and has no ./ before it; line numbers count "
        "from 1. Sorted by path and then by line number, as a number."
    )
    alternatives = "|".join(wanted)
    shape = (r"\1:\2: \4", r"\1\t\2\t\3\t\4")[layout]
    gold = (
        f"export LC_ALL=C; grep -rnE '# ({alternatives}): ' --include='*.py' --include='*.sh' *"
        + (" --exclude-dir=vendor" if skips == 1 else "")
        + (
            f" | sort -t: -k1,1 -k2,2n | sed -E 's/^([^:]+):([0-9]+):.*# ({alternatives}): (.*)$/{shape}/' "
            "> .r; mv .r remarks.txt"
        )
    )
    return Exercise(ask, before, changed(before, {"remarks.txt": lines_file(result)}), gold)


FAMILY = Family(
    "text_processing",
    (
        Kind("word_counts", 1, (2, 3, 3), word_counts),
        Kind("redact", 2, (3, 2, 2), redact),
        Kind("join_tables", 3, (3, 2, 2), records.join_tables),
        Kind("columns", 1, (3, 3, 2), columns),
        Kind("table_of_contents", 3, (2, 2, 3), records.table_of_contents, without(1)),
        Kind("dedupe", 2, (2, 2, 2), dedupe),
        Kind("compare_lists", 1, (4, 2, 2), compare_lists),
        Kind("todo_list", 2, (3, 2, 2), todo_list),
        Kind("letters", 2, (2, 2, 3), records.letters),
        Kind("rename_symbol", 3, (2, 2, 3), records.rename_symbol),
    ),
)
