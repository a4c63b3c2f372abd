"""Tasks and audits of an environment, for its page."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from ors_server.console.views.episode import gist
from ors_server.model.wire import compact_json

MAX_GIST_CHARACTERS = 160


def gist_of(value: object) -> str:
    """Return the beginning of a task: of its question, where it has one by a usual name."""
    names = ("question", "prompt", "problem", "instruction", "title", "statement")
    fields: Mapping[str, Any] = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    questions = (fields[name] for name in names if isinstance(fields.get(name), str))
    return gist(next(questions, None) or compact_json(value), MAX_GIST_CHARACTERS)


def read_audit(folder: Path | None, environment: str) -> Mapping[str, Any] | None:
    """Read the kept report of an environment's audit; `None` without a report.

    Returns:
        The version of the environment then; of each finding that is not waived its class, whether the class
        failed, and what happened; and why the report cannot be read, if so.
    """
    if folder is None:
        return None
    try:
        report = json.loads((folder / f"{environment}.json").read_text("utf-8"))
        holes = [
            (kind["id"], kind["verdict"] == "fail", finding["message"])
            for kind in report["classes"]
            if kind["verdict"] in {"fail", "warn"} and not kind["is_waived"]
            for finding in kind["findings"]
        ]
        return {"version": str(report["version"]), "holes": holes, "problem": None}
    except FileNotFoundError:
        return None
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        problem = f"The report in {folder} cannot be read: {error!r:.200}"
        return {"version": "", "holes": [], "problem": problem}
