"""An environment of a server as verifiers' `MultiTurnEnv` (0.1.14 to 0.3): native tool calls.

It is imported where verifiers is installed. The reward of a rollout is the return in the server's record.
"""

# pyright: basic, reportMissingImports=false
# The package is in another virtual environment.

import asyncio
from typing import Any

import verifiers as vf
from datasets import Dataset

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
from ors_server.client.call_result import text_of
from ors_server.client.session_summary import Summary
from ors_server.model.errors import OrsServerError
from ors_server.model.wire import Message, ToolListing

EPISODE, LISTING, SUMMARY = "ors_episode", "ors_listing", "ors_summary"
"""Keys of a rollout's state."""


class OrsMultiTurnEnv(vf.MultiTurnEnv):  # type: ignore[misc]  # a class of a package that is not here
    """Rollouts on a server; each opens its own episode and deletes it at the end."""

    def __init__(self, served: ServedEnvironment, num_tasks: int | None = None, **options: Any) -> None:
        """List the tasks of the split; `options` are those of `MultiTurnEnv`."""
        self._served = served
        rubric = vf.Rubric(funcs=[ors_return], weights=[1.0])
        super().__init__(dataset=_rows(served, num_tasks), rubric=rubric, **options)

    async def setup_state(self, state: Any) -> None:
        """Open the episode of the row's task; its prompt and tools become those of the rollout."""
        held_episode = state[EPISODE] = HeldEpisode(self._served, int(state["info"]["index"]))
        try:
            episode = await held_episode.open()
            listing = state[LISTING] = await episode.tools()
            state["prompt"] = self._system() + [_message(message) for message in await episode.messages()]
        except OrsServerError as error:
            # An `InfraError` makes verifiers leave the rollout out of training; any other error would end the
            # run.
            raise vf.InfraError(str(error)) from error
        state["ors_session_id"] = episode.session_id
        state["ors_play"] = episode
        state["tool_defs"] = [
            vf.Tool(
                name=tool.name, description=tool.description, parameters=tool.input_schema or NO_ARGUMENTS
            )
            for tool in listing.tools
        ]

    async def env_response(self, messages: Any, state: Any, **_: Any) -> Any:
        """Make the calls of the latest message; the end of the episode ends the rollout."""
        episode: AsyncEpisode = state["ors_play"]
        try:
            answers = await _answers(episode, state[LISTING], messages[-1])
        except OrsServerError as error:
            raise vf.InfraError(str(error)) from error
        if episode.finished:
            state["final_env_response"] = answers
        return answers

    @vf.stop  # type: ignore[untyped-decorator]  # as above
    async def no_call_to_make(self, state: Any) -> bool:
        """End a rollout whose latest message has no call, unless a tool receives the final message."""
        if not state["trajectory"] or LISTING not in state:
            return False
        last = state["trajectory"][-1]["completion"][-1]
        return not getattr(last, "tool_calls", None) and state[LISTING].terminal_tool is None

    @vf.cleanup  # type: ignore[untyped-decorator]  # as above
    async def close_episode(self, state: Any) -> None:
        """Delete the session and keep the figures of its record."""
        held_episode: HeldEpisode | None = state.pop(EPISODE, None)
        for key in ("ors_play", LISTING):
            state.pop(key, None)
        try:
            summary = None if held_episode is None else await held_episode.close()
        except OrsServerError as error:
            state["error"] = state.get("error") or vf.InfraError(str(error))
            return
        if summary is not None:
            state[SUMMARY] = {"return": summary.episode_return, "stop_reason": summary.stop_reason}
            # A record of an episode with a failed or ungraded step has a sum that is not a return.
            why = summary.why_invalid
            if why is not None:
                state[SUMMARY]["return"] = None
                state["error"] = state.get("error") or vf.InfraError(why)

    def _system(self) -> list[Any]:
        return [vf.SystemMessage(content=self.system_prompt)] if self.system_prompt else []


async def ors_return(state: Any) -> float:
    """Return the return in the server's record; a rollout without a return has an error in its state."""
    recorded = state.get(SUMMARY, {}).get("return")
    if recorded is None:
        raise vf.InfraError(f"the rollout has no return: {state.get('error')}")
    return float(recorded)


def make_env(served: ServedEnvironment, **options: Any) -> OrsMultiTurnEnv:
    """Return the environment that plays one served environment."""
    return OrsMultiTurnEnv(served, **options)


def _rows(served: ServedEnvironment, num_tasks: int | None) -> Any:
    """Return a row for each task, without its content: the prompt comes from the episode."""
    with Client(served.url, served.api_key) as client:
        count = client.num_tasks(served.split, served.environment)
    count = count if num_tasks is None else min(count, num_tasks)
    # Each row needs a prompt; `setup_state` replaces it.
    blank = [{"role": "user", "content": ""}]
    return Dataset.from_list(
        [
            {"prompt": blank, "answer": "", "info": {"index": index, "split": served.split}}
            for index in range(count)
        ]
    )


def _message(message: Message) -> Any:
    if message.role == "system":
        return vf.SystemMessage(content=text_of(message.blocks))
    if message.role == "assistant":
        return vf.AssistantMessage(content=text_of(message.blocks))
    return vf.UserMessage(content=chat_content(message.blocks))


async def _answers(episode: AsyncEpisode, listing: ToolListing, message: Any) -> list[Any]:
    """Make the calls of a message, up to the end of the episode, and return their results as messages."""
    calls = getattr(message, "tool_calls", None) or []
    last = listing.terminal_tool
    if not calls and last is not None:
        text = message.content if isinstance(message.content, str) else ""
        result = await episode.call(last.name, {} if last.arg is None else {last.arg: text})
        return [vf.UserMessage(content=result.text or NO_TEXT)]
    return [vf.ToolMessage(tool_call_id=call.id, content=await _played(episode, call)) for call in calls]


async def _played(episode: AsyncEpisode, call: Any) -> Any:
    result = await run_chat_call(episode, call.name, call.arguments)
    if isinstance(result, str):
        return result
    return chat_content(result.blocks) or NO_TEXT


class HeldEpisode:
    """An episode that several asyncio tasks use: verifiers opens, plays and closes it in different ones."""

    def __init__(self, served: ServedEnvironment, index: int, seed: int | None = None) -> None:
        self._served = served
        self._request = served.request(index, seed)
        self._leave = asyncio.Event()
        self._task: asyncio.Task[Summary] | None = None

    async def open(self) -> AsyncEpisode:
        """Create the session and return the episode."""
        # An anyio context must be left by the task that entered it, so that one task holds it from the start
        # to the end.
        opened: asyncio.Future[AsyncEpisode] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._hold(opened))
        waiting: list[asyncio.Future[Any]] = [opened, self._task]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        # If the task ended first, it has raised; that error is what the trainer must see.
        return opened.result() if opened.done() else await self._failed(self._task)

    async def close(self) -> Summary | None:
        """Compare the rewards with the record, delete the session, and return its figures.

        Returns `None` if it was never opened.

        Raises:
            SumMismatchError: If the received rewards differ from the record.
            OrsServerError: If the figures cannot be read.
        """
        self._leave.set()
        return None if self._task is None else await self._task

    async def _hold(self, opened: "asyncio.Future[AsyncEpisode]") -> Summary:
        served = self._served
        async with (
            AsyncClient(served.url, served.api_key) as client,
            client.episode(served.environment, **self._request) as episode,
        ):
            opened.set_result(episode)
            await self._leave.wait()
            return await episode.check()

    @staticmethod
    async def _failed(task: "asyncio.Task[Summary]") -> AsyncEpisode:
        await task
        raise AssertionError("a task that ends without an episode has raised")  # pragma: no cover
