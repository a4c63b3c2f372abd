"""Plays at the OpenEnv door with the real clients of openenv; prints what came as JSON.

Usage: `python play_openenv.py URL`, with the interpreter of a virtual environment that has openenv.
"""

import asyncio
import json
import sys

from openenv.cli.__main__ import app
from openenv.core import GenericEnvClient
from openenv.core.env_server.mcp_types import CallToolAction, ListToolsAction, Tool
from openenv.core.harness import (
    MCPHarnessAdapter,
    ModelStepResult,
    ResourceSessionFactory,
    StepEnvSessionAdapter,
    build_harness_rollout_func,
)
from openenv.core.llm_client import LLMResponse, ToolCall
from openenv.core.mcp_client import MCPToolClient
from typer.testing import CliRunner
from websockets.asyncio.client import connect


def call(name, **arguments):
    return {"type": "call_tool", "tool_name": name, "arguments": arguments}


def seen(result):
    observation = result.observation
    if not isinstance(observation, dict):
        observation = observation.model_dump(mode="json")
    return {"observation": observation, "reward": result.reward, "done": result.done}


async def failing(client, action):
    try:
        return seen(await client.step(action))
    except RuntimeError as error:
        return str(error)


async def generic(url):
    async with GenericEnvClient(base_url=url) as client:
        early = await failing(client, call("hint"))
        listed = await client.step({"type": "list_tools"})
        start = await client.reset(seed=3, episode_id="ep-7", split="test", index=2)
        first = await client.state()
        steps = [seen(await client.step(call("bonus"))), seen(await client.step(call("nothing")))]
        steps.append(seen(await client.step(call("guess", number="two"))))
        steps.append(seen(await client.step(call("guess", number=2))))
        late = seen(await client.step(call("bonus")))
        state = await client.state()
        second = await client.reset(split="test", index=1)
        return {
            "early": early,
            "tools": [tool["name"] for tool in listed.observation["tools"]],
            "start": seen(start),
            "first_state": first,
            "steps": steps,
            "late": late,
            "state": state,
            "second": seen(second),
        }


def blocking(url):
    with GenericEnvClient(base_url=url).sync() as client:
        start = client.reset(split="test", index=0)
        last = client.step(call("guess", number=0))
        return {
            "prompt": start.observation["prompt"],
            "last": seen(last),
            "session": start.observation["session_id"],
        }


async def typed(url):
    async with MCPToolClient(base_url=url) as client:
        await client.reset(split="test", index=1)
        tools = [tool.name for tool in await client.list_tools()]
        listed = await client.step(ListToolsAction())
        text = await client.call_tool("hint")
        result = await client.step(CallToolAction(tool_name="guess", arguments={"number": 1}))
        return {"tools": tools, "listed": len(listed.observation.tools), "text": text, "last": seen(result)}


async def production(url):
    client = MCPToolClient(base_url=url, mode="production")
    client.use_production_mode = True
    async with client:
        await client.reset(split="test", index=3)
        tools = [tool.name for tool in await client.list_tools()]
        text = await client.call_tool("bonus")
        state = await client._send_and_receive({"type": "state"})
        return {"tools": tools, "text": text, "state": state["data"]}


async def concurrent(url):
    async def one(index):
        async with GenericEnvClient(base_url=url) as client:
            await client.reset(split="test", index=index)
            await client.step(call("bonus"))
            last = await client.step(call("guess", number=index))
            return last.reward

    return await asyncio.gather(*(one(index % 6) for index in range(24)))


async def reconnected(url):
    socket = url.replace("http", "ws", 1) + "/ws"
    async with connect(socket) as first:
        await first.send(json.dumps({"type": "reset", "data": {"split": "test", "index": 4}}))
        start = json.loads(await first.recv())
        await first.send(json.dumps({"type": "step", "data": call("bonus")}))
        await first.recv()
        first.transport.abort()
    session = start["data"]["observation"]["session_id"]
    async with connect(f"{socket}?session_id={session}") as second:
        await second.send(json.dumps({"type": "state"}))
        state = json.loads(await second.recv())
        await second.send(json.dumps({"type": "step", "data": call("guess", number=4)}))
        last = json.loads(await second.recv())
    return {"state": state["data"], "last": last["data"]}


async def wrong(url):
    answers = []
    async with connect(url.replace("http", "ws", 1) + "/ws") as socket:
        for text in (
            "{",
            json.dumps({"type": "dance"}),
            json.dumps({"type": "step", "data": []}),
            json.dumps([]),
        ):
            await socket.send(text)
            answers.append(json.loads(await socket.recv())["data"]["code"])
        await socket.send(json.dumps({"type": "close"}))
        await socket.wait_closed()
        return {"codes": answers, "close": socket.close_code}


class Sessions(ResourceSessionFactory):
    """Sessions at the door, as a trainer makes them for OpenEnv's harness (TRL's `HarnessRolloutWorker`)."""

    def __init__(self, url):
        self.url = url

    def create(self, task, seed=None, episode_id=None):
        client = GenericEnvClient(base_url=self.url).sync()
        listed = client.step({"type": "list_tools"}).observation["tools"]
        return StepEnvSessionAdapter(
            client,
            task=task,
            seed=seed,
            episode_id=episode_id,
            tool_specs=[Tool(**tool) for tool in listed],
            action_builder=lambda name, arguments: call(name, **arguments),
            initial_messages_builder=lambda result, _: [
                {"role": "user", "content": result.observation["prompt"]}
            ],
            reset_kwargs={"split": "test", "index": task},
        )


def harness(url):
    """Runs the prompts through OpenEnv's own rollout function with a scripted model."""
    offered = []

    def build(trainer, session):
        moves = [ToolCall("a", "bonus", {}), ToolCall("b", "guess", {"number": 5})]

        def step(messages, tools, sampling):
            offered.append([tool.name for tool in tools])
            return ModelStepResult(LLMResponse("", [moves.pop(0)]), [1], [2], [-0.5])

        return step

    adapter = MCPHarnessAdapter()
    roll = build_harness_rollout_func(
        session_factory=Sessions(url), harness_adapter=adapter, model_step_builder=build
    )
    return {"rewards": roll([5, 3], None)["env_reward"], "tools": offered[0]}


def validate(url):
    """Runs OpenEnv's own validation of a running server in this process, and gives its report."""
    return json.loads(CliRunner().invoke(app, ["validate", "--url", url, "--json"]).stdout)


def main(url):
    sys.stdout.write(
        json.dumps(
            {
                "generic": asyncio.run(generic(url)),
                "blocking": blocking(url),
                "typed": asyncio.run(typed(url)),
                "production": asyncio.run(production(url)),
                "concurrent": asyncio.run(concurrent(url)),
                "reconnected": asyncio.run(reconnected(url)),
                "harness": harness(url),
                "wrong": asyncio.run(wrong(url)),
                "validated": validate(url),
            }
        )
    )


main(sys.argv[1])
