"""Rolls out a policy in verifiers, in an environment that `ors-server` keeps; prints the returns as JSON.

    python rollout_with_verifiers.py http://127.0.0.1:8080

The policy stands where verifiers puts a model's endpoint. It calls `walk` to the right, which is where the
lamp is in training.
"""

import asyncio
import json
import sys
from typing import Any

import verifiers as vf
from verifiers.clients import Client as ModelClient

from ors_server.adapters import to_verifiers
from ors_server.client import Client

TASKS = 3


class Walker(ModelClient):
    """A model that always walks to the right."""

    def __init__(self) -> None:
        """Need no endpoint."""
        super().__init__(None)

    def setup_client(self, config: Any) -> None:
        """Make no connection."""

    async def get_response(self, prompt: Any, model: str, sampling_args: Any, **_: Any) -> vf.Response:
        """Return a call of the tool `walk`."""
        del prompt, sampling_args  # a model would read them
        call = vf.ToolCall(id="call_1", name="walk", arguments='{"direction": "right"}')
        message = vf.ResponseMessage(content="", tool_calls=[call], finish_reason="stop", is_truncated=False)
        return vf.Response(id="response", created=0, model=model, usage=None, message=message)

    async def to_native_tool(self, tool: Any) -> Any:
        """Return a tool as it is."""
        return tool

    async def to_native_prompt(self, messages: Any) -> tuple[Any, dict[str, Any]]:
        """Return messages as they are."""
        return messages, {}

    async def get_native_response(self, prompt: Any, model: str, sampling_args: Any, **_: Any) -> Any:
        """Is never asked: `get_response` answers."""
        raise NotImplementedError

    async def raise_from_native_response(self, response: Any) -> None:
        """Find no error."""

    async def from_native_response(self, response: Any) -> Any:
        """Return a response as it is."""
        return response

    async def close(self) -> None:
        """Close nothing."""


async def main() -> None:
    """Play each task of the split, and compare each reward with the server's record."""
    url = sys.argv[1]
    env = to_verifiers(url, "corridor", split="train", num_tasks=TASKS, max_turns=6)
    rollouts = [
        await env.run_rollout(row, Walker(), "walker", {}, state_columns=["ors_session_id"])
        for row in env.get_dataset()
    ]
    with Client(url) as client:
        recorded = [client.summary(one["ors_session_id"]).episode_return for one in rollouts]
    json.dump({"returns": [one["reward"] for one in rollouts], "recorded": recorded}, sys.stdout)


if __name__ == "__main__":
    asyncio.run(main())
