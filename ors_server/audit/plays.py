"""One play: calls on a task in a separate session, and their result.

Both are JSON, so that another process can play.
"""

import json
import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import anyio

from ors_server.client.async_episode import AsyncEpisode
from ors_server.client.client_errors import UnreachableError
from ors_server.evaluation.targets import Target
from ors_server.model.errors import OrsServerError
from ors_server.model.wire import JSONObject, TextBlock

Call: TypeAlias = tuple[str, JSONObject]
"""A tool and its arguments."""
PLAY_SECONDS = 60.0
"""Seconds that one play may take on a server elsewhere."""
BUSY_PLAY_SECONDS = 600.0
"""The same in the audit's own process, where stalls end long before: a busy machine may need that long."""
MAX_KEPT_CHARACTERS = 20_000
"""Characters that are kept of a prompt or of a call's text."""
CONCURRENT_SESSIONS = 8
"""Sessions that are played at the same time."""


@dataclass(frozen=True, slots=True)
class CallPlan:
    """Calls on one task. Equal plans are played once."""

    split: str
    index: int
    calls: tuple[Call, ...] = ()
    seed: int = 0
    spec: JSONObject | None = None
    """Replaces the task at the position, where a policy changes it."""
    reads: bool = False
    """Whether the prompt, the tools and the texts of the calls are kept."""
    label: str = ""
    """The episode's label `audit` in the record."""
    canary: str = ""
    """What the changed task has in place of its answer."""

    @property
    def key(self) -> str:
        """The play as a text; `asdict` would copy every argument of every call."""
        parts = self.split, self.index, self.calls, self.seed, self.spec, self.reads, self.label, self.canary
        return json.dumps(parts, sort_keys=True, ensure_ascii=True, default=str)

    def with_calls(self, calls: Sequence[Call]) -> "CallPlan":
        """Return the play with other calls."""
        return replace(self, calls=tuple(calls))


@dataclass(frozen=True, slots=True)
class PlayResult:
    """The result of a play."""

    rewards: tuple[float | None, ...] = ()
    """One for each call that was answered; calls after the end are not made."""
    total: float = 0.0
    """The return."""
    finished: bool = False
    failure: str | None = None
    """Why the play broke off; never through the agent's fault."""
    blame: str | None = None
    """Who is to blame for the failure: `author`, `machinery`, ..., or `slow` for a play beyond its time."""
    refused: tuple[int, ...] = ()
    """Positions of the calls that did not run: unknown tools, invalid arguments."""
    texts: tuple[str, ...] = ()
    """The prompt, the tools as JSON, and the text of each call, if the play reads them."""

    @property
    def is_answered(self) -> bool:
        """Whether every call was answered."""
        return self.failure is None


async def play_all(
    target: Target,
    plays: Sequence[CallPlan],
    at_once: int = CONCURRENT_SESSIONS,
    journal: "Journal | None" = None,
    seconds: float = PLAY_SECONDS,
) -> list[PlayResult]:
    """Play each in a separate session, several at the same time.

    Args:
        seconds: What each may take; where none of as many as are played at once is answered, the rest is not
            played.
    """
    results: dict[int, PlayResult] = {}
    limiter = anyio.CapacityLimiter(at_once)
    slow = 0  # plays in a row that were not answered

    async def play_one(number: int) -> None:
        nonlocal slow
        async with limiter:
            # A server that hangs would cost its time limit for each remaining play.
            if slow >= at_once:
                results[number] = PlayResult(failure="the plays before it were not answered", blame="slow")
                return
            if journal is not None:
                journal.begin(number)
            results[number] = await play(target, plays[number], seconds)
            slow = slow + 1 if results[number].blame == "slow" else 0
            if journal is not None:
                journal.end(number, results[number])

    async with anyio.create_task_group() as tasks:
        for number in range(len(plays)):
            tasks.start_soon(play_one, number)
    return [results[number] for number in range(len(plays))]


class Journal:
    """A file of the plays that were begun and ended, which outlives the process that writes it."""

    def __init__(self, file: Path) -> None:
        # It stays open, because opening it costs many times as much as writing a line, and it is unbuffered,
        # because a buffer would be lost with the process.
        self._file = file.open("wb", buffering=0)

    def begin(self, number: int) -> None:
        """Note that a play begins."""
        self._write({"begun": number})

    def end(self, number: int, played: PlayResult) -> None:
        """Note the result of a play."""
        self._write({"ended": number, "played": to_json(played)})

    def close(self) -> None:
        """Close the file, which keeps its lines."""
        self._file.close()

    def _write(self, line: JSONObject) -> None:
        self._file.write(json.dumps(line).encode() + b"\n")

    @staticmethod
    def read(file: Path) -> tuple[set[int], dict[int, PlayResult]]:
        """Return the numbers of the plays that were begun, and the results of those that ended."""
        begun: set[int] = set()
        ended: dict[int, PlayResult] = {}
        # The last line is left out: the process may have been killed while it wrote it.
        for line in file.read_bytes().split(b"\n")[:-1] if file.exists() else ():
            entry = json.loads(line)
            if "begun" in entry:
                begun.add(entry["begun"])
            else:
                ended[entry["ended"]] = read_played(entry["played"])
        return begun, ended


async def play(target: Target, plan: CallPlan, seconds: float = PLAY_SECONDS) -> PlayResult:
    """Play one, and return its result; a failure and a play that takes too long are results, too."""
    taken = _PartialResult([], [], [])
    failure: tuple[str, str] | None = None
    with anyio.move_on_after(seconds) as scope:
        try:
            await _play(target, plan, taken)
        # A server that cannot be reached ends the audit; it says nothing about the environment.
        except UnreachableError:
            raise
        except OrsServerError as error:
            failure = (f"{error.code}: {error}", _blame(error))
    if scope.cancelled_caught:
        failure = (f"no answer within {seconds:g} seconds", "slow")
    return PlayResult(
        rewards=tuple(taken.rewards),
        total=math.fsum(reward or 0.0 for reward in taken.rewards) if taken.total is None else taken.total,
        finished=taken.finished,
        failure=None if failure is None else failure[0],
        blame=None if failure is None else failure[1],
        refused=tuple(taken.refused),
        # Texts go through the journal and the worker's channel, both of which have limits.
        texts=tuple(text[:MAX_KEPT_CHARACTERS] for text in taken.texts),
    )


@dataclass(slots=True)
class _PartialResult:
    rewards: list[float | None]
    refused: list[int]
    texts: list[str]
    total: float | None = None
    finished: bool = False


async def _play(target: Target, plan: CallPlan, taken: _PartialResult) -> None:
    episode: AsyncEpisode | None = None
    try:
        async with _open(target, plan) as opened:
            episode = opened
            if plan.reads:
                taken.texts.append(await opened.prompt())
                taken.texts.append((await opened.tools()).model_dump_json())
            for number, (tool, arguments) in enumerate(plan.calls):
                result = await opened.call(tool, arguments)
                taken.rewards.append(result.reward)
                if result.refusal is not None:
                    taken.refused.append(number)
                if plan.reads:
                    texts = [block.text for block in result.blocks if isinstance(block, TextBlock)]
                    taken.texts.append("\n".join(texts))
                if result.finished:
                    taken.finished = True
                    break
    # Also after a failure: the summary has the rewards of calls whose answers were lost.
    finally:
        if episode is not None:
            taken.total = await _total(episode)


def _open(target: Target, plan: CallPlan) -> AbstractAsyncContextManager[AsyncEpisode]:
    if plan.spec is not None:
        return target.client.episode(target.environment, task_spec=plan.spec)
    labels = {"audit": plan.label} if plan.label else {}
    # Without overrides of the policy: an audit judges the environment as it is served.
    return target.episode(plan.split, plan.index, seed=plan.seed, labels=labels, policy={})


async def _total(episode: AsyncEpisode) -> float | None:
    try:
        return (await episode.summary()).episode_return
    except OrsServerError:  # of servers that keep no summary, too
        return None


def _blame(error: OrsServerError) -> str:
    return error.blame.value


def to_json(value: CallPlan | PlayResult) -> JSONObject:
    """Return a play, or its result, as JSON."""
    return asdict(value)


def read_play(body: Mapping[str, Any]) -> CallPlan:
    """Read what `to_json` wrote."""
    calls = tuple((tool, arguments) for tool, arguments in body["calls"])
    fields: dict[str, Any] = {**body, "calls": calls}
    return CallPlan(**fields)


def read_played(body: Mapping[str, Any]) -> PlayResult:
    """Read what `to_json` wrote."""
    fields: dict[str, Any] = {
        **body,
        **{name: tuple(body[name]) for name in ("rewards", "refused", "texts")},
    }
    return PlayResult(**fields)
