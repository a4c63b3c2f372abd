"""Runs the benchmarks and prints one table of ratios.

Usage: python -m bench [NAME...] [--json]
"""

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable, Mapping
from types import MappingProxyType

from rich.console import Console

from bench import (
    alfworld,
    audits,
    batched_calls,
    batches,
    call_path,
    console_pages,
    declared_rows,
    first_load,
    idle_sessions,
    images,
    imports,
    math_graders,
    mcp_calls,
    ors_calls,
    record_scale,
    recording,
    recovery,
    sandboxes,
    scienceworld,
    servers,
    telemetry,
    webshop,
    workers,
)
from bench.report import Row, as_table

BENCHMARKS: Mapping[str, Callable[[], list[Row]]] = MappingProxyType(
    {
        "ors_calls": ors_calls.measure,
        "batched_calls": batched_calls.measure,
        "mcp_calls": mcp_calls.measure,
        "call_path": call_path.measure,
        "idle_sessions": idle_sessions.measure,
        "images": images.measure,
        "imports": imports.measure,
        "sandboxes": sandboxes.measure,
        "recording": recording.measure,
        "record_scale": record_scale.measure,
        "console_pages": console_pages.measure,
        "first_load": first_load.measure,
        "telemetry": telemetry.measure,
        "recovery": recovery.measure,
        "math_graders": math_graders.measure,
        "batches": batches.measure,
        "declared_rows": declared_rows.measure,
        "audits": audits.measure,
        "webshop": webshop.measure,
        "workers": workers.measure,
        "alfworld": alfworld.measure,
        "scienceworld": scienceworld.measure,
    }
)


def main() -> int:
    """Run the benchmarks.

    Returns:
        1 if a goal was missed, else 0.
    """
    parser = argparse.ArgumentParser(prog="python -m bench", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"some of {', '.join(BENCHMARKS)}; default all"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    wanted = parser.parse_args()
    unknown = [name for name in wanted.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"unknown benchmark {', '.join(unknown)}; expected one of {', '.join(BENCHMARKS)}")
    # Many images set it; then packages that were never compiled would be compiled in every measurement.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if not servers.openreward_python().exists():
        parser.error(f"no interpreter at {servers.openreward_python()}; `make bench` makes it")
    rows: list[Row] = []
    for name in wanted.names or BENCHMARKS:
        print(f"{name} …", file=sys.stderr, flush=True)
        rows += BENCHMARKS[name]()
    if wanted.json:
        print(json.dumps({"machine": describe_machine(), "rows": [row.as_json() for row in rows]}, indent=2))
    else:
        Console(width=None if sys.stdout.isatty() else 140).print(
            as_table(rows), describe_machine(), sep="\n"
        )
    return 0 if all(row.is_good for row in rows) else 1


def describe_machine() -> str:
    """Say in one line where the figures come from."""
    load = os.getloadavg()[0]
    return (
        f"{platform.machine()}, {os.cpu_count()} cores, load {load:.1f}, CPython {platform.python_version()}"
    )


if __name__ == "__main__":
    sys.exit(main())
