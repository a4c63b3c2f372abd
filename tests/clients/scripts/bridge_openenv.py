"""Plays through `to_openenv`, in this process and behind OpenEnv's own server; prints what came as JSON."""

import asyncio
import json
import socket
import sys
import threading

import uvicorn
from openenv.cli.__main__ import app
from openenv.core import GenericEnvClient
from openenv.core.env_server.http_server import create_fastapi_app
from openenv.core.env_server.mcp_types import CallToolAction, ListToolsAction
from openenv.core.env_server.types import Observation
from typer.testing import CliRunner

from ors_server.adapters import to_openenv
from ors_server.client import Client
from ors_server.model.errors import OrsServerError


def call(name, **arguments):
    return CallToolAction(tool_name=name, arguments=arguments)


def roll(env, index, *actions):
    start = env.reset(seed=3, index=index)
    seen = [env.step(action) for action in actions]
    figures = env.state.episode_id
    env.close()
    return {
        "prompt": start.prompt,
        "tools": [tool.name for tool in start.tools],
        "rewards": [one.reward for one in seen],
        "done": [one.done for one in seen],
        "errors": [one.error and one.error.error_type.value for one in seen],
        "session_id": figures,
    }


def fail(env, *actions):
    """Makes calls, of which the last one's judgement fails."""
    env.reset(index=0)
    for action in actions[:-1]:
        env.step(action)
    session_id = env.state.episode_id
    try:
        raised = str(env.step(actions[-1]))
    except OrsServerError as error:
        raised = type(error).__name__
    env.close()
    return {"raised": [raised], "session_id": session_id}


async def over_websocket(port, answer):
    """Plays with OpenEnv's generic client against OpenEnv's server of the bridge's class."""
    async with GenericEnvClient(base_url=f"http://127.0.0.1:{port}") as client:
        start = await client.reset(index=3)
        listed = await client.step({"type": "list_tools"})
        last = await client.step(
            {"type": "call_tool", "tool_name": "submit", "arguments": {"answer": answer}}
        )
        return {
            "prompt": start.observation["prompt"],
            "session_id": start.observation["session_id"],
            "tools": [tool["name"] for tool in listed.observation["tools"]],
            "reward": last.reward,
            "done": last.done,
        }


def validate(port):
    """Runs OpenEnv's own validation of a running server in this process, and gives its report."""
    ran = CliRunner().invoke(app, ["validate", "--url", f"http://127.0.0.1:{port}", "--json"])
    return json.loads(ran.stdout)


def serve(app):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="error"))
    threading.Thread(target=server.run, daemon=True).start()
    pause = threading.Event()
    while not server.started:
        pause.wait(0.05)
    return port


def main():
    url = sys.argv[1]
    math = to_openenv(url, "math_word_problems", split="test")
    with Client(url) as client:
        answer = client.task("test", 3, "math_word_problems")["answer"]
    listed = math()
    early = [tool.name for tool in listed.step(ListToolsAction()).tools]
    listed.reset(index=0)
    tools = [tool.name for tool in listed.step(ListToolsAction()).tools]
    listed.close()
    port = serve(create_fastapi_app(math, CallToolAction, Observation))
    json.dump(
        {
            "early": early,
            "tools": tools,
            "validated": validate(port),
            "gold": roll(math(), 3, call("calculator", expression="1+1"), call("submit", answer=answer)),
            "wrong": roll(math(), 3, call("submit", answer="-77")),
            "dense": roll(
                to_openenv(url, "ladder")(),
                0,
                call("climb", hand="left"),
                call("climb"),
                call("fly"),
                call("jump"),
            ),
            "end": fail(to_openenv(url, "misjudged")(), call("climb", hand="left"), call("land", answer="x")),
            "middle": fail(
                to_openenv(url, "misjudged")(), call("climb", hand="left"), call("weigh", answer="x")
            ),
            "served": asyncio.run(over_websocket(port, answer)),
        },
        sys.stdout,
    )


if __name__ == "__main__":
    main()
