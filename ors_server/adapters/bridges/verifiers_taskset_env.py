"""An environment of a server as a taskset of verifiers 0.4: native tool calls, one episode for each rollout.

verifiers finds it by the id `ors-taskset`: the module of that name exports the classes. The harness plays in
the process of verifiers and starts no program; the model's calls go through the endpoint of verifiers, which
records them. The reward of a rollout is the return in the server's record, and a rollout without a return
fails.
"""

# pyright: basic, reportMissingImports=false
# The package is in another virtual environment.

import os
from collections.abc import Iterator
from typing import Any

import openai
import verifiers.v1 as vf
from pydantic import Field

from ors_server.adapters.bridges import ServedEnvironment
from ors_server.adapters.bridges.chat_content import (
    NO_ARGUMENTS,
    NO_TEXT,
    chat_content,
    run_chat_call,
)
from ors_server.client.async_client import AsyncClient
from ors_server.client.async_episode import AsyncEpisode
from ors_server.client.blocking import Client
from ors_server.model.wire import ToolListing

PROMPT = "The server's prompt of this task follows when its episode begins."
"""Replaces the prompt of a task, which verifiers wants before there is an episode."""


class OrsTasksetConfig(vf.TasksetConfig):  # type: ignore[misc]  # a class of a package that is not here
    """Which environment of which server: `--env.taskset.url` and so on."""

    url: str = "http://127.0.0.1:8080"
    environment: str | None = None
    """`None` for the server's default one."""
    split: str = "train"
    num_tasks: int | None = None
    """Number of tasks from the first one; all by default."""
    seed: int | None = None
    """Seed of the environment's random generator, for every episode."""
    policy: dict[str, Any] = Field(default_factory=dict)
    """Overrides of the environment's policy."""
    api_key_var: str = "ORS_API_KEY"
    """Environment variable with a trainer's key, which is in no trace; unset for a server without keys."""


class OrsTaskData(vf.TaskData):  # type: ignore[misc]  # as above
    """The position of a task; its content stays on the server."""

    url: str
    environment: str | None
    split: str
    index: int
    seed: int | None
    policy: dict[str, Any]
    api_key_var: str


class OrsTraceState(vf.State):  # type: ignore[misc]  # as above
    """What the server's record says about the rollout's episode."""

    session_id: str | None = None
    episode_return: float | None = None
    steps: int = 0
    stop_reason: str | None = None


class OrsTask(vf.Task[OrsTaskData, OrsTraceState]):  # type: ignore[misc]  # as above
    """One task of a split."""

    @vf.reward  # type: ignore[untyped-decorator]  # as above
    async def ors_return(self, trace: Any) -> float:
        """Return the return in the server's record."""
        if trace.state.episode_return is None:
            raise RuntimeError("the rollout has no return: the harness ors-taskset did not play it")
        return float(trace.state.episode_return)

    @vf.metric  # type: ignore[untyped-decorator]  # as above
    async def ors_steps(self, trace: Any) -> float:
        """Return the number of steps of the episode."""
        return float(trace.state.steps)


class OrsTaskset(vf.Taskset[OrsTask, OrsTasksetConfig]):  # type: ignore[misc]  # as above
    """The tasks of a split of an environment on a server."""

    def load(self) -> Iterator[OrsTask]:
        """Count the tasks of the split and yield each one."""
        config = self.config
        with Client(config.url, os.environ.get(config.api_key_var)) as client:
            count = client.num_tasks(config.split, config.environment)
        fields = config.model_dump(include={"url", "environment", "split", "seed", "policy", "api_key_var"})
        for index in range(count if config.num_tasks is None else min(count, config.num_tasks)):
            data = OrsTaskData(name=f"{config.split}/{index}", prompt=PROMPT, index=index, **fields)
            yield OrsTask(data, config.task)


class OrsHarnessConfig(vf.HarnessConfig):  # type: ignore[misc]  # as above
    """The options of every harness."""


class OrsHarness(vf.Harness[OrsHarnessConfig]):  # type: ignore[misc]  # as above
    """Plays an episode with native tool calls, until it ends or the model makes no call."""

    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(
        self,
        ctx: Any,
        trace: Any,
        runtime: Any,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: OrsTaskData,
    ) -> Any:
        """Open an episode, play it, and keep the figures of its record in the trace's state.

        Raises:
            OrsServerError: If the server or the environment fails, or the episode has no return: verifiers
                makes it the rollout's error, and the rollout is not scored.
        """
        del runtime, mcp_urls
        key = os.environ.get(data.api_key_var)
        served = ServedEnvironment(data.url, data.environment, data.split, key, data.policy)
        request = served.request(data.index, data.seed)
        async with (
            openai.AsyncOpenAI(base_url=endpoint, api_key=secret) as model,
            AsyncClient(served.url, served.api_key) as client,
            client.episode(served.environment, **request) as episode,
        ):
            trace.state.session_id = episode.session_id
            await _play(episode, _Model(model, ctx.model, trace))
            summary = await episode.check()
        summary.check_valid()
        trace.state.episode_return = summary.episode_return
        trace.state.steps = summary.steps
        trace.state.stop_reason = summary.stop_reason
        return vf.ProgramResult(exit_code=0, stdout="", stderr="")


class _Model:
    """The rollout's model, behind the endpoint of verifiers."""

    def __init__(self, client: openai.AsyncOpenAI, name: str, trace: Any) -> None:
        self._client = client
        self._name = name
        self._trace = trace

    async def complete(self, messages: list[Any], tools: list[Any]) -> Any:
        """Return the next message; `None` if a limit or a stop of verifiers ended the rollout."""
        try:
            answer = await self._client.chat.completions.create(
                model=self._name, messages=messages, tools=tools or openai.omit
            )
        except openai.APIStatusError:
            if self._trace.stop_condition is None:
                raise
            return None
        return answer.choices[0].message


async def _play(episode: AsyncEpisode, model: _Model) -> None:
    listing = await episode.tools()
    tools = [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.input_schema or NO_ARGUMENTS,
            },
        }
        for tool in listing.tools
    ]
    messages: list[Any] = [
        {"role": message.role, "content": chat_content(message.blocks)}
        for message in await episode.messages()
    ]
    while not episode.finished:
        message = await model.complete(messages, tools)
        if message is None:
            return
        messages.append(message.model_dump(exclude_none=True))
        answers = await _answer(episode, listing, message)
        if not answers:
            return
        messages += answers


async def _answer(episode: AsyncEpisode, listing: ToolListing, message: Any) -> list[Any]:
    """Make the calls of a message; without one, the terminal tool, if there is any, receives its text."""
    calls = message.tool_calls or []
    last = listing.terminal_tool
    if not calls and last is not None:
        result = await episode.call(last.name, {} if last.arg is None else {last.arg: message.content or ""})
        return [{"role": "user", "content": result.text or NO_TEXT}]
    return [
        {"role": "tool", "tool_call_id": call.id, "content": await _run(episode, call.function)}
        for call in calls
    ]


async def _run(episode: AsyncEpisode, function: Any) -> Any:
    result = await run_chat_call(episode, function.name, function.arguments)
    if isinstance(result, str):
        return result
    if result.is_unjudged:
        # The rollout has no return any more, so that the model's next turns would be wasted.
        (await episode.summary()).check_judged()
    return chat_content(result.blocks) or NO_TEXT
