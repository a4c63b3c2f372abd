"""Rolls out scripted models through `to_verifiers`, with the real verifiers; prints what came as JSON."""

import asyncio
import json
import sys

import verifiers as vf
from verifiers.clients import Client as ModelClient

from ors_server.adapters import to_verifiers
from ors_server.client import Client


class Scripted(ModelClient):
    """A model that plays a script: each entry is a text, or a list of calls (name, arguments as JSON)."""

    def __init__(self, *script):
        super().__init__(None)
        self.script = list(script)
        self.requests = []

    def setup_client(self, config):
        return None

    async def get_response(self, prompt, model, sampling_args, tools=None, **_):
        self.requests.append({"messages": prompt, "tools": [tool.name for tool in tools or []]})
        said = self.script.pop(0)
        calls = [] if isinstance(said, str) else said
        message = vf.ResponseMessage(
            content=said if isinstance(said, str) else "",
            tool_calls=[
                vf.ToolCall(id=f"call_{number}", name=name, arguments=arguments)
                for number, (name, arguments) in enumerate(calls)
            ],
            finish_reason="stop",
            is_truncated=False,
        )
        return vf.Response(id="r", created=0, model=model, usage=None, message=message)

    async def to_native_tool(self, tool):
        return tool

    async def to_native_prompt(self, messages):
        return messages, {}

    async def get_native_response(self, prompt, model, sampling_args, tools=None, **_):
        raise NotImplementedError

    async def raise_from_native_response(self, response):
        return None

    async def from_native_response(self, response):
        return response

    async def close(self):
        return None


async def roll(env, row, *script):
    model = Scripted(*script)
    output = await env.run_rollout(
        env.get_dataset()[row], model, "scripted", {}, state_columns=["ors_session_id", "ors_summary"]
    )
    return {
        "reward": output["reward"],
        "session_id": output["ors_session_id"],
        "summary": output.get("ors_summary"),
        "stop": output["stop_condition"],
        "error": output.get("error") and output["error"]["error"],
        "prompt": model.requests[0]["messages"][0].content,
        "tools": model.requests[0]["tools"],
        "completion": [message["role"] for message in output["completion"]],
        "said": [str(message["content"]) for message in output["completion"] if message["role"] == "tool"],
    }


async def main():
    url = sys.argv[1]
    math = to_verifiers(url, "math_word_problems", split="test", num_tasks=5, max_turns=6)
    misjudged = to_verifiers(url, "misjudged", max_turns=6)
    ladder = to_verifiers(url, "ladder", max_turns=6)
    with Client(url) as client:
        answer = client.task("test", 3, "math_word_problems")["answer"]
    gold = json.dumps({"answer": answer})
    json.dump(
        {
            "rows": len(math.get_dataset()),
            "columns": sorted(math.get_dataset().column_names),
            "gold": await roll(math, 3, [("calculator", '{"expression": "1+1"}')], [("submit", gold)]),
            "wrong": await roll(math, 3, [("submit", '{"answer": "-77"}')]),
            "dense": await roll(
                ladder,
                1,
                [("climb", '{"hand": "left"}'), ("climb", "{"), ("climb", "{}")],
                [("jump", "")],
            ),
            "broken": await roll(ladder, 1, [("climb", '{"hand": "left"}')], [("slip", "{}")]),
            "end": await roll(misjudged, 1, [("climb", '{"hand": "left"}')], [("land", '{"answer": "x"}')]),
            "middle": await roll(
                misjudged,
                1,
                [("climb", '{"hand": "left"}')],
                [("weigh", '{"answer": "x"}')],
                [("jump", "{}")],
            ),
            "silent": await roll(ladder, 1, "I give up."),
        },
        sys.stdout,
        default=str,
    )


if __name__ == "__main__":
    asyncio.run(main())
