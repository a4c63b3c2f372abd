"""The requirements of an Open Reward Standard server.

The specification (openrewardstandard.io, November 2026) and the two implementations disagree in places, so
each requirement names its source: a page of the specification, or `practice`: the needs of the clients
`openreward` 0.1.167 and `ors-sdk` 0.1.0, TRL 1.16.0 and inspect-openreward 0.3.0. A `wire` requirement is
checked on any server; a `process` requirement needs control of the server's clock, settings or logs, and is
checked by the project's own tests.
"""

import tomllib
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Literal


class Level(StrEnum):
    """How strongly something is required, in the words of RFC 2119."""

    MUST = "MUST"
    SHOULD = "SHOULD"
    MAY = "MAY"


@dataclass(frozen=True, slots=True)
class Requirement:
    """One behaviour that can be observed from outside."""

    id: str
    level: Level
    section: str
    """A page of the specification, or `practice`."""
    checked: Literal["wire", "process"]
    text: str


@cache
def read_requirements() -> tuple[Requirement, ...]:
    """Return every requirement, in the order of `ors_requirements.toml`."""
    text = (files("ors_server.conformance") / "ors_requirements.toml").read_text("utf-8")
    return tuple(
        Requirement(key, Level(row["level"]), row["section"], row["checked"], row["text"])
        for key, row in tomllib.loads(text).items()
    )
