"""Takes rewards into environments of `openreward` or the `ors-sdk` and back, and prints what came of it as
one JSON document.

Usage: `python rewards_openreward.py ROOT PACKAGES PACKAGE`, PACKAGE being `openreward.environments` or `ors`,
with the interpreter of a virtual environment that has it; PACKAGES is the folder of what the rewards import.
The script judges nothing: the test that starts it does.
"""

import asyncio
import json
import os
import sys
from importlib import import_module
from typing import Any

os.environ["OPENREWARD_DISABLE_UPDATE_CHECK"] = "1"
sys.path.insert(0, sys.argv[1])
sys.path.append(sys.argv[2])

from ors_server.rewards.adapters.openreward import as_openreward, as_score_group, from_openreward
from ors_server.rewards.reward_errors import NoRewardError
from ors_server.rewards.scoring import score

PACKAGE: Any = sys.argv[3]
theirs: Any = import_module(PACKAGE)


def spelled(final_response: str, answer: str) -> dict[str, float]:
    """Compares texts, and cannot judge without one."""
    if not answer:
        raise ValueError("the answer is empty")
    return {"reward": float(final_response == answer), "length": len(final_response)}


async def submit(answer: str) -> Any:
    """Gives what a tool of an environment gives."""
    paid = {"4": 1.0, "5": 0.0}.get(answer)
    block = theirs.TextBlock(text="done")
    return theirs.ToolOutput(blocks=[block], reward=paid, finished=True, metadata={"said": answer})


def outputs() -> dict[str, Any]:
    """Ends episodes with a reward of ours, and reads the package's outputs as rewards."""
    judged = as_openreward(spelled, package=PACKAGE)
    right: Any = asyncio.run(judged(final_response="4", answer="4", text="thank you"))
    unjudged: Any = asyncio.run(judged(final_response="4", answer=""))
    wrapped = theirs.RunToolOutput(theirs.RunToolSuccess(output=right))
    return {
        "right": right.model_dump(mode="json"),
        "unjudged": unjudged.model_dump(mode="json"),
        "is_theirs": isinstance(right, theirs.ToolOutput),
        "read": [score(from_openreward(submit), answer=text).as_json() for text in ("4", "5", "?")],
        "lambda": score(from_openreward(lambda digit: submit(str(digit))), digit=4).reward,
        "wrapped": score(from_openreward(lambda: wrapped)).reward,
        "text": score(from_openreward(lambda: "1.0")).as_json(),
    }


def groups() -> dict[str, Any]:
    class Env(theirs.Environment):  # type: ignore[name-defined]  # whichever package it is
        score_group = as_score_group(spelled, package=PACKAGE)

        @classmethod
        def list_splits(cls) -> list[str]:
            return ["train"]

        @classmethod
        def list_tasks(cls, split: str) -> list[Any]:
            return [{"answer": "4"}]

        def get_prompt(self) -> Any:
            return []

    def candidate(text: str) -> Any:
        blocks = [theirs.TextBlock(text=text)]
        return theirs.GroupCandidate(messages=[theirs.Message(role="assistant", blocks=blocks)])

    candidates = [candidate(text) for text in ("4", "5")]
    scores: Any = asyncio.run(Env(task_spec={"answer": "4"}).score_group(candidates))
    try:
        asyncio.run(Env(task_spec={"answer": ""}).score_group(candidates))
    except NoRewardError as error:
        refused = str(error)
    return {
        "offered": Env._supports_score_group(),
        "scores": [one.model_dump(mode="json") for one in scores],
        "refused": refused,
    }


if __name__ == "__main__":
    seen = {"outputs": outputs()}
    if hasattr(theirs, "GroupScore"):
        seen["groups"] = groups()
    sys.stdout.write(json.dumps(seen))
