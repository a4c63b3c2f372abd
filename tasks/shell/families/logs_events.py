"""Log analysis, continued: events that belong together, gaps between them, and clocks that differ."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ors_server_tasks.shell.exercise import EPOCH, Exercise, Tree, changed, lines_file
from ors_server_tasks.shell.vocabulary import HOSTS, SERVICES, USERS, ip_address, sentence

if TYPE_CHECKING:
    from ors_server_tasks.shell.draw import Draw
    from ors_server_tasks.shell.exercise import Choices

_DAY = 86_400
_HOUR = 3600
_MINUTE = 60


def stamp(time: int) -> str:
    """Write Unix seconds as in 2026-01-31T08:09:10Z."""
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _clock(seconds: int) -> str:
    return f"{seconds // _HOUR:02d}:{seconds // _MINUTE % 60:02d}:{seconds % 60:02d}"


def start_time(draw: Draw) -> int:
    """Draw when a log begins, in Unix seconds."""
    return EPOCH + draw.between(0, 300) * _DAY + draw.between(0, _DAY)


def work_sessions(draw: Draw, choices: Choices) -> Exercise:
    """Add up or compare the time between logins and logouts."""
    figure, unit, order = choices
    people, time = draw.pick_some(USERS, 8), start_time(draw)
    inside: dict[str, int] = {}
    spans: dict[str, list[int]] = defaultdict(list)
    lines: list[str] = []
    for _ in range(draw.between(120, 160)):
        time += draw.between(20, 900)
        person = draw.pick(people)
        if draw.chance(12):
            lines.append(f"{time} {person} heartbeat")
        elif person in inside:
            spans[person].append(time - inside.pop(person))
            lines.append(f"{time} {person} logout")
        else:
            inside[person] = time
            lines.append(f"{time} {person} login")
    least = (1, 600)[unit]
    values = {
        person: (sum(durations), max(durations), sum(span >= least for span in durations))[figure]
        for person, durations in spans.items()
    }
    what = (
        "the total time of all their sessions",
        "the time of their longest session",
        ("the number of their sessions", f"the number of their sessions of at least {least} seconds")[unit],
    )[figure]
    is_time = figure in {0, 1}
    form = (" in seconds", " as HH:MM:SS (hours with at least two digits, they may pass 24)")[unit] * is_time
    rows = sorted(values) if order == 0 else sorted(values, key=lambda person: (-values[person], person))
    ask = (
        "logins.log holds events, one per line: time in Unix seconds, person, and login, logout or "
        "heartbeat. A session lasts from a login to the next logout of the same person; one without a "
        "logout does not count. Write to sessions.txt for everyone with at least one session a line of "
        f"name, one space, and {what}{form}; "
        + ("sorted by name.", "the greatest first, equal ones sorted by name.")[order]
    )
    update = ("v[$2] += d", "if (d > v[$2]) v[$2] = d", f"v[$2] += d >= {least}")[figure]
    sort = ("sort -k1,1", "sort -k2,2nr -k1,1")[order]
    show = (
        " | awk '{printf \"%s %02d:%02d:%02d\\n\", $1, int($2 / 3600), int($2 / 60) % 60, $2 % 60}'"
        if unit and is_time
        else ""
    )
    gold = (
        'export LC_ALL=C; awk \'$3 == "login" {s[$2] = $1} $3 == "logout" && ($2 in s) {d = $1 - '
        f"s[$2]; delete s[$2]; {update}}} END {{for (p in v) print p, v[p]}}' logins.log | {sort}{show} > "
        "sessions.txt"
    )
    before: Tree = {"logins.log": lines_file(lines)}
    result = [f"{person} {_clock(values[person]) if unit and is_time else values[person]}" for person in rows]
    return Exercise(ask, before, changed(before, {"sessions.txt": lines_file(result)}), gold)


def outages(draw: Draw, choices: Choices) -> Exercise:
    """Find the gaps between signs of life."""
    shape, order, limit_choice = choices
    limit = (60, 120)[limit_choice]
    machines = draw.pick_some(HOSTS, draw.between(3, 5))
    beats: list[tuple[int, str]] = []
    gaps: list[tuple[str, int, int]] = []
    start = start_time(draw)
    for machine in machines:
        time = start + draw.between(0, 30)
        for _ in range(draw.between(40, 60)):
            beats.append((time, machine))
            step = draw.between(limit + 1, 9 * limit) if draw.chance(8) else draw.between(10, limit)
            time += step
            if step > limit:
                gaps.append((machine, time - step, time))
        beats.append((time, machine))
    lines = [f"{stamp(time)} {machine} alive" for time, machine in sorted(beats)]
    ask = (
        "beats.log holds signs of life of several machines, one per line, the oldest first: time, machine, "
        f"the word alive. A machine was out where more than {limit} seconds lie between two successive "
        "signs of it. Write to outages.txt one line for each outage: machine, time of the last sign "
        "before, time of the first sign after (as they stand in the "
        f"log){(', and the seconds between them', '')[shape]}, separated by one space each; sorted by "
        + ("machine, those of one machine by time.", "time of the last sign before, equal ones by machine.")[
            order
        ]
    )
    rows = sorted(gaps) if order == 0 else sorted(gaps, key=lambda gap: (gap[1], gap[0]))
    result = [
        f"{name} {stamp(start)} {stamp(end)}" + (f" {end - start}", "")[shape] for name, start, end in rows
    ]
    fields = ("print $2, w[$2], $1, t - s[$2]", "print $2, w[$2], $1")[shape]
    sort = ("sort -k1,2", "sort -k2,2 -k1,1")[order]
    gold = (
        "export LC_ALL=C; cut -d' ' -f1 beats.log | date -u -f - +%s | paste -d' ' beats.log - | awk '{t "
        f"= $4}} ($2 in s) && t - s[$2] > {limit} {{{fields}}} {{s[$2] = t; w[$2] = $1}}' | {sort} > "
        "outages.txt"
    )
    before: Tree = {"beats.log": lines_file(lines)}
    return Exercise(ask, before, changed(before, {"outages.txt": lines_file(result)}), gold)


def break_ins(draw: Draw, choices: Choices) -> Exercise:
    """Find addresses that guess passwords."""
    rule, output, least_choice = choices
    least = (4, 6)[least_choice]
    addresses = [ip_address(draw) for _ in range(12)]
    patience = {address: draw.pick((15, 50, 85)) for address in addresses}
    time, lines = start_time(draw), list[str]()
    tries: dict[str, list[tuple[bool, str]]] = defaultdict(list)
    for _ in range(draw.between(180, 240)):
        time += draw.between(1, 90)
        address, person = draw.pick(addresses), draw.pick(USERS[:9])
        failed = draw.chance(patience[address])
        tries[address].append((failed, person))
        port, pid = draw.between(30_000, 60_000), draw.between(300, 900)
        verb = "Failed" if failed else "Accepted"
        lines.append(
            f"{stamp(time)} gate sshd[{pid}]: {verb} password for {person} from {address} port {port}"
        )
        if draw.chance(10):
            lines.append(f"{stamp(time)} gate cron[{pid}]: session opened for {person}")
    judge = (_longest_row, _first_success)[rule]
    attackers = {address: row for address in sorted(tries) if (row := judge(tries[address], least))}
    said = (
        f"with at least {least} failed passwords in a row (no accepted one of the same address between them)",
        (
            f"that had at least {least} failed passwords in a row and directly after them, from the same "
            "address, an accepted one"
        ),
    )[rule]
    number = (
        "the length of its longest such row",
        "the length of the first such row, one space, and the login that was then accepted",
    )[rule]
    ask = (
        f"auth.log holds lines such as: {lines[0]}\nOther lines are of no interest. Find the addresses "
        f"{said}. Write to suspects.txt one line for each, sorted: the address"
        + (f", one space, and {number}." if output == 0 else ".")
    )
    result = [f"{address} {row}" if output == 0 else address for address, row in attackers.items()]
    shown = {(0, 0): "print a, w[a]", (1, 0): "print a, w[a], u[a]"}.get((rule, output), "print a")
    mark = (
        (
            f"/Failed/ {{if (++s[$9] > m[$9]) m[$9] = s[$9]; if (m[$9] >= {least}) w[$9] = m[$9]}} "
            "/Accepted/ {s[$9] = 0}"
        ),
        (
            f"/Failed/ {{s[$9]++}} /Accepted/ {{if (s[$9] >= {least} && !($9 in w)) {{w[$9] = s[$9]; u[$9] "
            "= $7} s[$9] = 0}"
        ),
    )[rule]
    gold = (
        f"export LC_ALL=C; grep 'sshd' auth.log | awk '{mark} END {{for (a in w) {shown}}}' | sort > "
        "suspects.txt"
    )
    before: Tree = {"auth.log": lines_file(lines)}
    return Exercise(ask, before, changed(before, {"suspects.txt": lines_file(result)}), gold)


def _longest_row(tries: list[tuple[bool, str]], least: int) -> str:
    """The length of the longest row of failures, empty if it is shorter than `least`."""
    streak, longest = 0, 0
    for failed, _ in tries:
        streak = streak + 1 if failed else 0
        longest = max(longest, streak)
    return str(longest) if longest >= least else ""


def _first_success(tries: list[tuple[bool, str]], least: int) -> str:
    """The length of the first row of at least `least` failures before a success, and whose that was."""
    streak = 0
    for failed, person in tries:
        if not failed and streak >= least:
            return f"{streak} {person}"
        streak = streak + 1 if failed else 0
    return ""


_FAILURES = (
    "ValueError",
    "KeyError",
    "TimeoutError",
    "ConnectionError",
    "ZeroDivisionError",
    "PermissionError",
)


def exceptions(draw: Draw, choices: Choices) -> Exercise:
    """Count what programs died of, from traces of several lines."""
    figure, order, chained = choices
    lines: list[str] = []
    stamps: dict[str, list[str]] = defaultdict(list)
    time = start_time(draw)
    for _ in range(draw.between(70, 100)):
        time += draw.between(1, 400)
        lines.append(f"{stamp(time)} INFO {sentence(draw, 2, 5)}")
        if draw.chance(55):
            time += 1
            name = draw.pick(_FAILURES)
            lines.append(f"{stamp(time)} ERROR request failed")
            if chained == 1 and draw.chance(40):
                lines += [
                    *_trace(draw, draw.pick(_FAILURES)),
                    "",
                    ("During handling of the above exception, another exception occurred:"),
                    "",
                ]
            lines += _trace(draw, name)
            stamps[name].append(stamp(time))
    values = {name: (str(len(times)), times[0], times[-1])[figure] for name, times in stamps.items()}
    names = sorted(values, key=lambda name: (-len(stamps[name]), name) if order else (0, name))
    what = ("the number of them", "the time of the first of them", "the time of the last of them")[figure]
    ask = (
        "app.log holds messages; an ERROR line is followed by a Python traceback whose last line is the "
        "exception: its name, a colon, a message. "
        + (
            "Some tracebacks are chained (During handling of ...): then only the last exception counts. "
            if chained
            else ""
        )
        + f"Write to failures.txt one line for each name of exception: the name, one space, {what} (the "
        "time of an exception is that of the ERROR line before it); "
        + ("sorted by name.", "the most frequent first, equal ones sorted by name.")[order]
    )
    shown = ("n[e]", "f[e]", "l[e]")[figure]
    gold = (
        'export LC_ALL=C; awk \'function note() {if (e != "") {n[e]++; if (!(e in f)) f[e] = t; l[e] = '
        't}; e = ""} /^[0-9]+-[0-9]+-[0-9]+T/ {note()} $2 == "ERROR" {t = $1} /^[A-Za-z]+Error: / '
        '{e = $1; sub(/:$/, "", e)} '
        f"END {{note(); for (e in n) print e, n[e], {shown}}}' app.log | "
        f"{('sort -k1,1', 'sort -k2,2nr -k1,1')[order]} | cut -d' ' -f1,3 > failures.txt"
    )
    before: Tree = {"app.log": lines_file(lines)}
    return Exercise(
        ask, before, changed(before, {"failures.txt": lines_file([f"{n} {values[n]}" for n in names])}), gold
    )


def _trace(draw: Draw, name: str) -> list[str]:
    service = draw.pick(SERVICES)
    return [
        "Traceback (most recent call last):",
        f'  File "/srv/{service}.py", line {draw.between(5, 400)}, in handle',
        f"    raise {draw.pick(_FAILURES)}(reason)"
        if draw.chance(30)
        else f"    {service}.run({draw.between(1, 9)})",
        f"{name}: {sentence(draw, 2, 4)}",
    ]
