"""Plays the taskset `openenv` of verifiers 0.4 at our door with scripted models; prints what came as JSON."""

import asyncio
import json
import os
import sys

import verifiers.v1 as vf
from verifiers.v1.utils.loaders import resolve_env_config

from tests.fixtures.chat_server import ChatServer, said


def act(tool, **arguments):
    return said(json.dumps({"type": "call_tool", "tool_name": tool, "arguments": arguments}))


async def roll(url, *answers, **reset):
    """Runs one episode of verifiers as its eval does, with a model that gives these answers."""
    config = resolve_env_config(
        {
            "taskset": {"id": "openenv", "base_url": url, "resets": [reset]},
            "player": {"harness": {"id": "null"}, "runtime": {"type": "subprocess"}},
        }
    )
    env = vf.load_environment(config)
    server = ChatServer()
    server.script = list(answers)
    with server.serving():
        client = vf.EvalClientConfig(base_url=server.url, api_key_var="ORS_TEST_MODEL_KEY")
        async with env.serving():
            (slot,) = env.slots(next(iter(env.taskset)))
            episode = await env.run_slot(slot, vf.ModelContext(model="scripted", client=client))
    (trace,) = episode.traces
    first = json.loads(server.asked[0]["messages"][-1]["content"])
    return {
        "ok": episode.ok,
        "error": trace.last_error and [trace.last_error.type, trace.last_error.message],
        "reward": trace.reward,
        "rewards": {name: reward and reward.value for name, reward in trace.rewards.items()},
        "session_id": first["observation"]["session_id"],
        "prompt": first["observation"]["prompt"],
        "tools": [tool["name"] for tool in first["action_schema"].get("available_tools", [])],
    }


async def main():
    url = sys.argv[1]
    os.environ["ORS_TEST_MODEL_KEY"] = "key"
    seen = {
        "right": await roll(url, act("bonus"), act("guess", number=4), task_id="test/4"),
        "wrong": await roll(url, act("guess", number=0), task_id="test/4"),
    }
    json.dump(seen, sys.stdout)


if __name__ == "__main__":
    asyncio.run(main())
