"""Plays the taskset `ors-taskset` in verifiers 0.4 with scripted models; prints what came as JSON."""

import asyncio
import json
import os
import sys

import verifiers.v1 as vf
from verifiers.v1.utils.loaders import resolve_env_config

from ors_server.client import Client
from tests.fixtures.chat_server import ChatServer, said


async def roll(url, environment, index, *answers, **taskset):
    """Runs one episode of verifiers as its eval does, with a model that gives these answers."""
    max_turns = taskset.pop("max_turns", None)
    agent = {"runtime": {"type": "subprocess"}, **({} if max_turns is None else {"max_turns": max_turns})}
    config = resolve_env_config(
        {
            "taskset": {"id": "ors-taskset", "url": url, "environment": environment, **taskset},
            "agent": agent,
        }
    )
    env = vf.load_environment(config)
    tasks = list(env.taskset)
    server = ChatServer()
    server.script = list(answers)
    with server.serving():
        client = vf.EvalClientConfig(base_url=server.url, api_key_var="ORS_TEST_MODEL_KEY")
        async with env.serving():
            (slot,) = env.slots(tasks[index])
            episode = await env.run_slot(slot, vf.ModelContext(model="scripted", client=client))
    (trace,) = episode.traces
    return {
        "tasks": len(tasks),
        "harness": trace.agent.config.harness.id,
        "ok": episode.ok,
        "reward": trace.reward if trace.ok else None,
        "rewards": {name: reward and reward.value for name, reward in trace.rewards.items()},
        "stop": trace.stop_condition,
        "error": trace.last_error and [trace.last_error.type, trace.last_error.message],
        "session_id": trace.state.session_id,
        "roles": [message.role for message in trace.branches[-1].messages] if trace.branches else [],
        "asked": [
            {
                "messages": [[message["role"], message.get("content")] for message in body["messages"]],
                "tools": [tool["function"]["name"] for tool in body.get("tools", [])],
            }
            for body in server.asked
        ],
    }


async def main():
    url = sys.argv[1]
    os.environ["ORS_TEST_MODEL_KEY"] = "key"
    with Client(url) as client:
        answer = client.task("test", 3, "math_word_problems")["answer"]
    climb = ("climb", {"hand": "left"})
    seen = {
        "gold": await roll(
            url,
            "math_word_problems",
            3,
            said("", ("calculator", {"expression": "1+1"})),
            said("", ("submit", {"answer": answer})),
            split="test",
            num_tasks=5,
        ),
        "wrong": await roll(
            url, "math_word_problems", 3, said("", ("submit", {"answer": "-77"})), split="test"
        ),
        "dense": await roll(
            url, "ladder", 1, said("", climb, ("climb", "{"), ("climb", {})), said("", ("jump", {}))
        ),
        "broken": await roll(url, "ladder", 1, said("", climb), said("", ("slip", {}))),
        "end": await roll(url, "misjudged", 1, said("", climb), said("", ("land", {"answer": "x"}))),
        "middle": await roll(
            url, "misjudged", 1, said("", climb), said("", ("weigh", {"answer": "x"})), said("", ("jump", {}))
        ),
        "silent": await roll(url, "ladder", 1, said("I give up.")),
        "limited": await roll(url, "ladder", 1, said("", climb), said("", climb), max_turns=1),
        "unready": await roll(url, "unready", 1, said("", climb)),
        "gone": await roll(url, "ladder", 1, said("", climb), policy={"step_limit": -1}),
    }
    json.dump(seen, sys.stdout)


if __name__ == "__main__":
    asyncio.run(main())
