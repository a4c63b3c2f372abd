"""Log analysis: counting, ranking and following events in the logs of servers and programs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from ors_server_tasks.shell.draw import Draw
from ors_server_tasks.shell.exercise import (
    EPOCH,
    Choices,
    Exercise,
    Family,
    File,
    Kind,
    Tree,
    changed,
    gzip_stored,
    lines_file,
    without,
)
from ors_server_tasks.shell.families import logs_events as events
from ors_server_tasks.shell.families import logs_joined as joined
from ors_server_tasks.shell.families.logs_events import stamp
from ors_server_tasks.shell.vocabulary import MONTHS, PAGES, SERVICES, ip_address, sentence

_DAY = 86_400
_ERROR = 400
_ACCESS = (
    "access.log holds one request per line, such as: {}\n(client, two hyphens, time, request line, "
    "status, bytes). "
)


@dataclass(frozen=True, slots=True)
class _Request:
    client: str
    time: int
    method: str
    page: str
    status: int
    size: int

    def line(self) -> str:
        date, clock = stamp(self.time)[:10], stamp(self.time)[11:19]
        year, month, day_ = date.split("-")
        when = f"{day_}/{MONTHS[int(month) - 1]}/{year}:{clock} +0000"
        return f'{self.client} - - [{when}] "{self.method} {self.page} HTTP/1.1" {self.status} {self.size}'


def _requests(draw: Draw, count: int) -> list[_Request]:
    clients = [ip_address(draw) for _ in range(18)]
    time = EPOCH + draw.between(0, 200) * _DAY
    requests: list[_Request] = []
    for _ in range(count):
        time += draw.between(0, 2 * _DAY // count)
        method = draw.pick(("GET", "GET", "GET", "POST", "PUT", "HEAD"))
        status = draw.pick((200, 200, 200, 200, 204, 301, 304, 400, 403, 404, 404, 500, 503))
        requests.append(
            _Request(draw.pick(clients), time, method, draw.pick(PAGES), status, draw.between(0, 9000))
        )
    return requests


def _access(requests: list[_Request]) -> tuple[str, Tree]:
    """Return the description of the log, and the log."""
    return _ACCESS.format(requests[0].line()), {
        "access.log": lines_file([request.line() for request in requests])
    }


def _every(_: _Request) -> bool:
    return True


_ASPECTS: tuple[tuple[str, Callable[[_Request], str], str], ...] = (
    ("status", lambda request: str(request.status), "$9"),
    ("request method", lambda request: request.method, "substr($6, 2)"),
    ("page (the path of the request)", lambda request: request.page, "$7"),
    (
        "hour of the day (00 to 23, of the time as written)",
        lambda request: stamp(request.time)[11:13],
        "substr($4, 14, 2)",
    ),
)
_ONLY: tuple[tuple[str, Callable[[_Request], bool], str], ...] = (
    ("", _every, "1"),
    (
        " Look only at requests with a status of 400 or more.",
        lambda request: request.status >= _ERROR,
        "$9 >= 400",
    ),
    (" Look only at GET requests.", lambda request: request.method == "GET", '$6 == "\\"GET"'),
)


def count_requests(draw: Draw, choices: Choices) -> Exercise:
    """Count the requests of a log by some aspect."""
    aspect, only, order = choices
    requests = _requests(draw, draw.between(300, 500))
    told, before = _access(requests)
    name, value, field = _ASPECTS[aspect]
    said, test, condition = _ONLY[only]
    counts = Counter(value(request) for request in requests if test(request))
    rows = sorted(counts) if order == 0 else sorted(counts, key=lambda key: (-counts[key], key))
    ask = (
        f"{told}Count the requests by {name}.{said} Write to counts.txt one line for each value that "
        "occurs: the value, one space, the number of requests; "
        f"{('sorted by value', 'the highest number first, equal ones sorted by value')[order]}."
    )
    sort = ("sort -k1,1", "sort -k2,2nr -k1,1")[order]
    gold = (
        f"export LC_ALL=C; awk '{condition} {{c[{field}]++}} END {{for (k in c) print k, c[k]}}' access.log "
        f"| {sort} > counts.txt"
    )
    after = changed(before, {"counts.txt": lines_file([f"{key} {counts[key]}" for key in rows])})
    return Exercise(ask, before, after, gold)


def top_clients(draw: Draw, choices: Choices) -> Exercise:
    """Rank the clients of a log."""
    measure, window, share = choices
    requests = _requests(draw, draw.between(350, 500))
    told, before = _access(requests)
    top, hour = draw.between(4, 7), draw.between(6, 12)
    tests: tuple[tuple[str, Callable[[_Request], bool], str], ...] = (
        ("", _every, "1"),
        (
            f" Look only at requests from {hour:02d}:00:00 to {hour + 7:02d}:59:59 (time of day as written).",
            lambda request: hour <= int(stamp(request.time)[11:13]) <= hour + 7,
            f"(h = substr($4, 14, 2) + 0) >= {hour} && h <= {hour + 7}",
        ),
    )
    said, test, condition = tests[window]
    totals: Counter[str] = Counter()
    for request in requests:
        if test(request):
            totals[request.client] += (1, request.size)[measure]
    whole = sum(totals.values())
    rows = sorted(totals, key=lambda client: (-totals[client], client))[:top]
    unit = ("requests", "bytes")[measure]
    extra = (
        "",
        (
            f", one space, and its share of the {unit} of all clients in whole per cent, rounded down, with "
            "a % sign"
        ),
    )[share]
    ask = (
        f"{told}Find the {top} clients with the most {unit}.{said} Write to top.txt one line for each, the "
        f"most first (equal ones sorted by address): the address, one space, the number of {unit}{extra}."
    )
    value = ("1", "$10")[measure]
    shown = ("print k, c[k]", 'print k, c[k], int(c[k] * 100 / t) "%"')[share]
    gold = (
        f"export LC_ALL=C; awk '{condition} {{c[$1] += {value}; t += {value}}} END {{for (k in c) "
        f"{shown}}}' access.log | sort -k2,2nr -k1,1 | head -n {top} > top.txt"
    )
    lines = [f"{key} {totals[key]}" + ("", f" {totals[key] * 100 // whole}%")[share] for key in rows]
    return Exercise(ask, before, changed(before, {"top.txt": lines_file(lines)}), gold)


def merge_errors(draw: Draw, choices: Choices) -> Exercise:
    """Collect messages from rotated and compressed logs in order of time."""
    level_choice, layout, scope = choices
    wanted = (("ERROR",), ("WARN", "ERROR"), ("FATAL",))[level_choice]
    services = draw.pick_some(SERVICES, 3)
    time = EPOCH + draw.between(0, 300) * _DAY
    entries: dict[str, list[str]] = {service: [] for service in services}
    problems: list[tuple[int, str, str, str]] = []
    for _ in range(draw.between(240, 320)):
        time += draw.between(1, 300)
        service, level = (
            draw.pick(services),
            draw.pick(("INFO", "INFO", "DEBUG", "WARN", "ERROR", "FATAL", "INFO")),
        )
        text = sentence(draw, 2, 6) + draw.pick(("", "", " ERROR count 0", " after WARN"))
        entries[service].append(f"{stamp(time)} {level} {text}")
        if level in wanted and (scope == 0 or service != services[0]):
            problems.append((time, service, level, text))
    before: Tree = {}
    for service, lines in entries.items():
        third = len(lines) // 3
        before[f"logs/{service}.log.2.gz"] = File(gzip_stored(lines_file(lines[:third]).content))
        before[f"logs/{service}.log.1"] = lines_file(lines[third : 2 * third])
        before[f"logs/{service}.log"] = lines_file(lines[2 * third :])
    rows = [
        (f"{stamp(time)} {service}: {text}", f"{service}\t{level}\t{stamp(time)}\t{text}")[layout]
        for time, service, level, text in problems
    ]
    ask = (
        "The folder logs holds the logs of three services, rotated: SERVICE.log is the newest part, "
        "SERVICE.log.1 the one before, SERVICE.log.2.gz the oldest, compressed with gzip. A line is: time, "
        f"level, text, such as {entries[services[0]][0].split(' ')[0]} INFO {sentence(draw, 2, 3)}. Collect "
        f"all lines whose level is {' or '.join(wanted)}"
        + (f", except those of the service {services[0]}," if scope == 1 else "")
        + " from all parts into merged.txt, the oldest first (no two have the same time), each as "
        + (
            "time, one space, service, a colon, one space, text.",
            "service, level, time, text, separated by one tab each.",
        )[layout]
    )
    skip = f'[ "$s" = {services[0]} ] && continue; ' if scope == 1 else ""
    shape = ('$1 " " s ": " t', 's "\\t" $2 "\\t" $1 "\\t" t')[layout]
    levels = " || ".join(f'$2 == "{level}"' for level in wanted)
    key = ("-k1,1", "-t'\t' -k3,3")[layout]
    gold = (
        f'export LC_ALL=C; for f in logs/*; do s=${{f#logs/}}; s=${{s%%.*}}; {skip}zcat -f "$f" | awk -v '
        's="$s" '
        f"'{levels} {{t = $0; sub(/^[^ ]+ [^ ]+ /, \"\", t); print {shape}}}'; done | sort {key} > merged.txt"
    )
    return Exercise(ask, before, changed(before, {"merged.txt": lines_file(rows)}), gold)


def latencies(draw: Draw, choices: Choices) -> Exercise:
    """Compute a percentile of response times for each endpoint."""
    percentile_choice, only, order = choices
    percent = (50, 90, 95)[percentile_choice]
    endpoints = draw.pick_some(PAGES, draw.between(5, 8))
    lines: list[str] = []
    times: dict[str, list[int]] = defaultdict(list)
    time = EPOCH + draw.between(0, 300) * _DAY
    for _ in range(draw.between(300, 420)):
        time += draw.between(1, 60)
        page, status, took = (
            draw.pick(endpoints),
            draw.pick((200, 200, 200, 404, 500)),
            draw.between(3, 900) * draw.pick((1, 1, 4)),
        )
        lines.append(f"{stamp(time)} path={page} status={status} ms={took} worker={draw.between(1, 8)}")
        if only == 0 or status == 200:  # noqa: PLR2004 - the status OK
            times[page].append(took)
    worth = {
        page: sorted(durations)[-(-len(durations) * percent // 100) - 1] for page, durations in times.items()
    }
    rows = sorted(worth) if order == 0 else sorted(worth, key=lambda page: (-worth[page], page))
    ask = (
        f"api.log holds one request per line, such as: {lines[0]}\nCompute for each path the {percent}th "
        "percentile of ms by the nearest-rank method: sort its n values from the smallest to the largest "
        f"and take the one at position ceil({percent} * n / 100), counted from 1."
        + (" Look only at requests with status 200." if only else "")
        + " Write to latency.txt one line for each path: the path, one space, the percentile, one space, n; "
        + ("sorted by path.", "the highest percentile first, equal ones sorted by path.")[order]
    )
    condition = ("1", '$3 == "status=200"')[only]
    sort = ("sort -k1,1", "sort -k2,2nr -k1,1")[order]
    gold = (
        f"export LC_ALL=C; awk '{condition} {{print substr($2, 6), substr($4, 4)}}' api.log | sort -k1,1 "
        f"-k2,2n | awk '{{n[$1]++; v[$1, n[$1]] = $2}} END {{for (p in n) print p, v[p, int(({percent} * "
        f"n[p] + 99) / 100)], n[p]}}' | {sort} > latency.txt"
    )
    before: Tree = {"api.log": lines_file(lines)}
    result = [f"{page} {worth[page]} {len(times[page])}" for page in rows]
    return Exercise(ask, before, changed(before, {"latency.txt": lines_file(result)}), gold)


FAMILY = Family(
    "log_analysis",
    (
        Kind("count_requests", 1, (4, 3, 2), count_requests),
        Kind("merge_errors", 2, (3, 2, 2), merge_errors),
        Kind("work_sessions", 3, (3, 2, 2), events.work_sessions),
        Kind("top_clients", 1, (2, 2, 2), top_clients),
        Kind("outages", 2, (2, 2, 2), events.outages),
        Kind("break_ins", 3, (2, 2, 2), events.break_ins),
        Kind("exceptions", 2, (3, 2, 2), events.exceptions, without(2)),
        Kind("latencies", 2, (3, 2, 2), latencies),
        Kind("lost_requests", 3, (3, 2), joined.lost_requests),
        Kind("one_clock", 3, (2, 2, 2), joined.one_clock),
    ),
)
