"""The requirements of an Open Reward Standard server.

The specification (openrewardstandard.io, November 2026) and the two implementations disagree in places, so
each requirement names its source: a page of the specification, or `practice`: the needs of the clients
`openreward` 0.1.167 and `ors-sdk` 0.1.0, TRL 1.16.0 and inspect-openreward 0.3.0. A `wire` requirement is
checked on any server; a `process` requirement needs control of the server's clock, settings or logs, and is
checked by the project's own tests.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
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


def _parse(table: str) -> tuple[Requirement, ...]:
    """Read entries of a line `id level checked section` and indented lines of text."""
    requirements: list[Requirement] = []
    for entry in re.split(r"\n(?=\S)", table.strip()):
        head, text = entry.split("\n", 1)
        key, level, checked, section = head.split(" ")
        kind: Literal["wire", "process"] = "process" if checked == "process" else "wire"
        requirements.append(Requirement(key, Level(level), section, kind, " ".join(text.split())))
    return tuple(requirements)


REQUIREMENTS = _parse("""
E1 MUST wire specification/http-api
    GET /health answers 200 with "status": "ok"
E2 MUST wire specification/http-api
    GET /list_environments answers an array of names, the default one first
E3 MUST wire specification/data-types
    a tool is described by exactly its name, its description and its schema, which may be null
E4 MUST wire practice
    the environment's name in a path is case-insensitive
E5 MUST wire concepts/tasks-splits
    a split has a name and a type that is train, validation or test
E6 MUST wire specification/http-api
    POST /tasks answers the tasks of a split and the environment's name
E7 MUST wire practice
    where tasks cannot be listed, /tasks answers 400 with the words "not supported"
E8 MUST wire concepts/tasks-splits
    POST /num_tasks counts the tasks of a split
E9 MUST wire practice
    POST /task answers one task and the environment's name
E10 MUST wire practice
    an index past the end answers 400 with a detail
E10b SHOULD wire practice
    index -1 means the last task of a listed split
E11 MUST wire concepts/tasks-splits
    /task_range slices as Python does, clamped, with optional bounds, and names the environment
E12 MUST wire practice
    an unknown split answers 400 wherever a split is named
E13 MUST wire practice
    a path without an environment's name reaches the default environment, at worst by a 307 or 308
E13b SHOULD wire practice
    a path without an environment's name is answered directly
E13c SHOULD wire practice
    X-Deployment names the environment of a path without one, as name or owner/name; an unknown name
    answers 404
E14 MUST wire specification/http-api
    a malformed body answers 4xx with a JSON detail
E15 MUST wire practice
    every JSON answer, errors included, says application/json
E16 SHOULD wire concepts/tasks-splits
    /get_task and /get_task_range are other names of /task and /task_range
E17 SHOULD wire specification/http-api
    an unknown environment in a path answers 404 directly
E18 MUST wire practice
    discovery ignores a session id, whether or not a session has it
E19 SHOULD process concepts/tasks-splits
    tasks keep their order when the server restarts
E20 MUST wire practice
    POST /create_session streams task_id with a new session id, then end, whatever the body
E21 SHOULD wire specification/sessions
    /create_session answers {"sid"} as JSON to a client that accepts JSON alone
E22 MUST wire practice
    a session id that the client made up is as good, and /create answers it
E23 MUST wire practice
    a split and an index without an environment's name mean the default environment
E24 MUST wire specification/sessions
    a session's endpoints answer 400 without X-Session-ID
E25 MUST wire specification/sessions
    a session needs a task_spec or a split and an index: neither, both or half of it is a 4xx
E26 MUST wire specification/http-api
    an unknown environment's name in /create answers 404
E27 MUST wire practice
    a second /create for a session in use answers 400
E27b SHOULD wire practice
    of many concurrent /create for one session exactly one is carried out
E28 MUST wire practice
    secrets come in the header X-Secrets, with or without allowed domains
E28b SHOULD wire practice
    a malformed X-Secrets answers 400
E29 SHOULD wire specification/sessions
    secrets come in the body too, and the header's win
E30 SHOULD wire practice
    an unknown toolset_name answers a 4xx
E31 SHOULD process practice
    a /create repeated byte for byte because its answer was lost is no error
E32 MUST wire specification/sessions
    /create answers before setup ends, /ping answers during it, and /prompt waits for it
E33 MUST wire concepts/prompts
    a prompt is an array of blocks
E34 MUST wire concepts/tools
    /task_tools has all of /tools and may have more
E35 SHOULD process practice
    both clients get their prompt after a setup of 80 seconds
E36 MUST wire specification/sessions
    an unknown or deleted session answers 404 or 410 as JSON
E37 MUST wire practice
    where setup failed, /prompt and /call answer 500 with the reason and do not hang
E38 MUST wire specification/sessions
    /delete is idempotent and answers 200 for an unknown session too
E39 MUST wire specification/sessions
    /delete_session answers {"sid"}
E39b SHOULD wire specification/sessions
    /delete_session ends the session
E40 MUST process specification/sessions
    a session ends after 900 seconds without a request, and not while a call runs
E41 MUST wire practice
    teardown runs exactly once however often a session is deleted
E41b MUST process practice
    teardown runs exactly once when a session expires and when the server stops
E42 SHOULD wire practice
    teardown does not run under a running call
E50 MUST wire specification/sse
    a call is answered by an event stream whose first event is task_id
E51 MUST wire practice
    task_id comes at once, not with the result
E51b SHOULD wire practice
    task_id comes at once during setup too
E52 MUST wire specification/sse
    a call's stream has exactly one end or error, as its last event
E53 MUST wire practice
    an output has blocks, metadata, reward and finished, all four, always
E54 MUST wire practice
    no line of a stream reaches 64 KiB
E55 MUST wire practice
    every line of a stream has a colon, and a blank line ends the last event
E56 SHOULD wire practice
    no piece of a result begins with white space, which clients strip
E57 MUST wire practice
    a silent call is kept alive by a comment at least every 25 seconds
E58 MUST wire practice
    a stream never ends without end or error, and its connection not before
E59 MUST wire specification/sse
    a stream says text/event-stream and is neither buffered nor compressed
E60 MUST wire specification/sse
    a tool that raises gives an error event with its message, and the session goes on
E60b SHOULD wire practice
    an error event is never empty
E61 MUST wire practice
    an unknown tool or invalid input is an answer with ok false and the words that clients match
E61b SHOULD wire practice
    such an answer has a reason: not_found or input_validation
E61c MUST wire specification/http-api
    a malformed call is a 4xx, not a stream
E62 MUST wire specification/sse
    a dropped connection does not stop a call; its task_id fetches the result and never runs it again
E62b MUST process practice
    a result can be fetched for at least 60 seconds after its call ended
E63 MUST wire practice
    a task_id of the server's own shape that it does not know is the error "unknown task_id", and
    nothing runs
E64 SHOULD wire practice
    a task_id is good in its own session only
E65 SHOULD wire practice
    null for an optional parameter means that it is absent
E66 MAY wire specification/sse
    a task_id that the client made up names the call: repeated, it runs once
E67 MUST wire practice
    parallel calls in one session are all answered, and sessions do not see each other
E68 SHOULD wire concepts/rewards
    after the end calls are refused with episode_finished, and earlier results can still be fetched
E69 SHOULD wire practice
    a call that ran is never reported as not run
E70 SHOULD wire practice
    a tool that blocks its thread does not stall other sessions
E71 MUST wire practice
    the environment's name in a session's path is not compared with the session's own
E72 MUST wire specification/data-types
    JSON never has NaN or Infinity
E72b SHOULD wire practice
    a reward that is not a number is an error, not the absence of a reward
E73 SHOULD wire practice
    a call whose client left before it received a task_id does not run
E74 MAY wire practice
    where keys are required, a request without X-API-Key answers 401 with a detail
E75 SHOULD process practice
    at capacity /create answers 429 with Retry-After and the words "maximum capacity"
E76 MUST process practice
    keys and secrets are never logged
E77 SHOULD wire practice
    GET /version answers the version
E78 SHOULD wire practice
    a body that is too large answers 413
E79 SHOULD wire practice
    a tool that exits the interpreter or raises a cancellation hurts only its own call
E80 MAY process practice
    a session's totals are at a path that no environment's name can take
A4 MAY wire practice
    a terminal tool is not among the tools and is described beside them
A14 MAY wire practice
    GET /messages answers the prompt as a conversation
A17 MAY wire practice
    POST /score_group streams one score for each candidate, or answers 404 where unsupported
""")

BY_ID = {requirement.id: requirement for requirement in REQUIREMENTS}
"""Every requirement by its id."""
