"""Log analysis, continued: several logs that tell of the same things."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ors_server_tasks.shell.exercise import Exercise, Tree, changed, lines_file
from ors_server_tasks.shell.families.logs_events import stamp, start_time
from ors_server_tasks.shell.vocabulary import HOSTS, SERVICES, USERS, sentence

if TYPE_CHECKING:
    from ors_server_tasks.shell.draw import Draw
    from ors_server_tasks.shell.exercise import Choices

_HOUR = 3600
_FIRST_FIELD = (" | cut -d' ' -f1", "")


def lost_requests(draw: Draw, choices: Choices) -> Exercise:
    """Follow requests from one log to another by their ids."""
    question, order = choices
    time = start_time(draw)
    front, back = list[str](), list[tuple[int, str]]()
    took: dict[str, int] = {}
    sent: dict[str, str] = {}
    bad: list[str] = []
    for number in draw.pick_some(range(10_000, 99_999), draw.between(90, 120)):
        time += draw.between(1, 20)
        key, service, user = f"r{number:x}", draw.pick(SERVICES), draw.pick(USERS)
        front.append(f"{stamp(time)} id={key} user={user} send {service}")
        sent[key] = service
        if draw.chance(82):
            took[key] = draw.between(1, 400)
            end, code = time + took[key], draw.pick((0, 0, 0, 7))
            back.append((end, f"{stamp(end)} {service} done id={key} code={code}"))
            bad += [key] if code else []
    lost = sorted(key for key in sent if key not in took)
    counts = Counter(sent[key] for key in lost)
    delays = Counter({key: took[key] for key in bad})
    results = (
        (lost, [f"{key} {sent[key]}" for key in lost])[order],
        _ranked(counts, by_number=order == 1),
        _ranked(delays, by_number=order == 1),
    )
    what = (
        "the ids of all requests that were sent but never done, sorted"
        + ("", ", each followed by one space and the service")[order],
        "for each service to which requests were sent that were never done, a line of service, one space, "
        "and their number; "
        + ("sorted by service", "the highest number first, equal ones sorted by service")[order],
        (
            "for each request that was done with code 7 a line of id, one space, and the seconds from send "
            "to done; "
        )
        + ("sorted by id", "the longest first, equal ones sorted by id")[order],
    )[question]
    ask = (
        f"front.log holds requests that were sent, such as: {front[0]}\nback.log holds those that were "
        f"done, such as: {min(back)[1]}\nRequests belong together by their id. Write to result.txt {what}."
    )
    lost_ids = (
        'awk \'NR == FNR {split($4, a, "="); d[a[2]]; next} {split($2, a, "="); if (!(a[2] in d)) print '
        "a[2], $5}' back.log front.log"
    )
    rank = ("sort -k1,1", "sort -k2,2nr -k1,1")[order]
    gold = (
        f"{lost_ids} | sort{_FIRST_FIELD[order]} > result.txt",
        f"{lost_ids} | awk '{{c[$2]++}} END {{for (s in c) print s, c[s]}}' | {rank} > result.txt",
        (
            "for f in front back; do cut -d' ' -f1 $f.log | date -u -f - +%s | paste -d' ' - $f.log > .$f; "
            "done; "
            'awk \'NR == FNR {split($3, a, "="); s[a[2]] = $1; next} /code=7$/ {split($5, a, "="); print '
            f"a[2], $1 - s[a[2]]}}' .front .back | {rank} > result.txt; rm .front .back"
        ),
    )[question]
    before: Tree = {
        "front.log": lines_file(front),
        "back.log": lines_file([line for _, line in sorted(back)]),
    }
    after = changed(before, {"result.txt": lines_file(results[question])})
    return Exercise(ask, before, after, f"export LC_ALL=C; {gold}")


def _ranked(numbers: Counter[str], *, by_number: bool) -> list[str]:
    names = sorted(numbers)
    if by_number:
        names.sort(key=lambda name: -numbers[name])
    return [f"{name} {numbers[name]}" for name in names]


_OFFSETS = (-5, -3, 0, 1, 2, 8)


def one_clock(draw: Draw, choices: Choices) -> Exercise:
    """Bring logs with different clocks into one order."""
    spelling, layout, only = choices
    machines = draw.pick_some(HOSTS, 3)
    offsets = dict(zip(machines, draw.pick_some(_OFFSETS, 3), strict=True))
    time = start_time(draw)
    lines: dict[str, list[str]] = {machine: [] for machine in machines}
    log_rows: list[tuple[int, str, str]] = []
    for _ in range(draw.between(60, 90)):
        time += draw.between(1, 2000)
        machine, text = draw.pick(machines), sentence(draw, 2, 6)
        level = draw.pick(("info", "error"))
        local = stamp(time + offsets[machine] * _HOUR)
        zone = f"{'-' if offsets[machine] < 0 else '+'}{abs(offsets[machine]):02d}:00"
        shown = local[:-1] + zone if spelling == 0 else local[:-1].replace("T", " ")
        lines[machine].append(f"{shown} {level} {text}")
        if only == 0 or level == "error":
            log_rows.append((time, machine, f"{level} {text}"))
    told = (
        "with the offset of its zone, such as 2026-01-31T08:09:10+02:00",
        (
            "of its own zone without saying so, such as 2026-01-31 08:09:10; zones.txt says for each "
            "machine how many hours its clock is ahead of UTC (negative: behind)"
        ),
    )[spelling]
    row = (
        "time, one space, machine, one space, and the rest of the line",
        "machine, a comma, time, a comma, and the rest of the line",
    )[layout]
    ask = (
        "Each of the files in the folder machines, named after its machine, is a log whose lines begin "
        f"with a time {told}; then come one space, info or error, one space and a text. Write to all.log "
        + ("all lines", "all error lines")[only]
        + (
            " of all machines, the oldest first (no two have the same time), with the time in UTC, such as "
            f"2026-01-31T06:09:10Z: {row}."
        )
    )
    rows = [(f"{stamp(t)} {m} {rest}", f"{m},{stamp(t)},{rest}")[layout] for t, m, rest in log_rows]
    keep = ("", '$3 == "error" ')[only]
    parse = (
        (
            "cut -d' ' -f1 \"$f\" | date -u -f - +%s | paste -d' ' - \"$f\" | sed -E 's/^([0-9]+) [^ ]+ "
            "/\\1 '\"$m\"' /'"
        ),
        (
            "cut -d' ' -f1,2 \"$f\" | date -u -f - +%s | paste -d' ' - \"$f\" | awk -v z=$(awk -v m=$m '$1 "
            "== m {print $2}' zones.txt) '{$1 -= z * 3600; print}' | sed -E 's/^([0-9]+) [^ ]+ [^ ]+ "
            "/\\1 '\"$m\"' /'"
        ),
    )[spelling]
    shape = ('%s %s %s\\n", w, $2, r', '%s,%s,%s\\n", $2, w, r')[layout]
    gold = (
        f"for f in machines/*.log; do m=${{f#machines/}}; m=${{m%.log}}; {parse}; done | sort -n > .all; "
        "cut -d' ' -f1 .all | sed 's/^/@/' | date -u -f - +%Y-%m-%dT%H:%M:%SZ | paste -d' ' - .all | awk "
        "'{w = $1; r = $0; "
        f'sub(/^[^ ]+ [^ ]+ [^ ]+ /, "", r); $1 = ""; $0 = $0}} {keep}{{printf "{shape}}}\' > '
        f"all.log; rm .all"
    )
    before: Tree = {f"machines/{machine}.log": lines_file(entries) for machine, entries in lines.items()}
    if spelling == 1:
        before["zones.txt"] = lines_file([f"{machine} {offsets[machine]}" for machine in sorted(machines)])
    return Exercise(ask, before, changed(before, {"all.log": lines_file(rows)}), gold)
