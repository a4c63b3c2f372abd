"""Plays the ladder through the stock `openreward` client with a tool that raises, and prints what came.

Usage: `python consume_openreward.py URL PART...`, with the interpreter of a virtual environment that has
`openreward`. The script judges nothing: the test that starts it does.
"""

import json
import os
import sys
from typing import Any

os.environ["OPENREWARD_DISABLE_UPDATE_CHECK"] = "1"
os.environ["OPENREWARD_API_URL"] = os.environ["OPENREWARD_SESSION_URL"] = sys.argv[1]

from openreward import OpenReward

PLAYS = {
    "slips": [("climb", {"hand": "left"}), ("slip", {}), ("climb", {"hand": "right"})],
    "beyond": [("jump", {}), ("look", {})],
}


def consume(calls: list[tuple[str, dict[str, Any]]]) -> dict[str, Any]:
    came: list[Any] = []
    with OpenReward(api_key="").environments as api:
        ladder = api.get("ladder")
        with ladder.session(task=ladder.list_tasks("train")[0]) as session:
            for tool, arguments in calls:
                try:
                    output = session.call_tool(tool, arguments)
                    came.append([output.reward, output.finished])
                except Exception as error:  # noqa: BLE001  (whatever it is, the test says what it expects)
                    came.append(f"{type(error).__name__}: {error}")
            return {"came": came, "session": session.sid}


if __name__ == "__main__":
    sys.stdout.write(json.dumps({name: consume(PLAYS[name]) for name in sys.argv[2:]}))
