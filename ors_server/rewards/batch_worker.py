"""One worker of a batch: a program that judges rows and says what they came to, line by line.

It reads an order, then rows, and writes one line for each: the row's number, a tab, and the result. What a
reward prints goes to standard error. It ends when its input does; if that happens while it judges, whoever
asked is gone, and it ends at once, with every process that the reward started.
"""

import json
import math
import os
import signal
import sys
import threading
from collections.abc import Mapping
from functools import partial
from queue import SimpleQueue
from typing import Any, cast

import anyio
import anyio.to_thread

from ors_server.rewards.catalogue import find_reward
from ors_server.rewards.define import Reward
from ors_server.rewards.errors import BatchError, RewardFieldError
from ors_server.rewards.plain import plain
from ors_server.rewards.result import RewardResult
from ors_server.rewards.scoring import MAX_REASON, evaluate, failure, gather_fields, score

MAX_RESULT = 2**20
"""Characters of one result; where it is longer its extras are left out."""


class Channel:
    """The way to and from whoever started the worker."""

    def __init__(self) -> None:
        """Take standard input and output for the channel, so that a reward can neither read nor spoil it."""
        self._input = os.fdopen(os.dup(0), "rb")
        self._output = os.dup(1)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        sys.stdout = sys.stderr  # which does not wait until there is much to say
        os.close(nothing)
        self._lines: SimpleQueue[bytes | None] = SimpleQueue()
        self._judging = 0
        self._lock = threading.Lock()

    def open(self) -> dict[str, Any]:
        """Read the order and begin to listen."""
        order: dict[str, Any] = json.loads(self._input.readline())
        threading.Thread(target=self._listen, daemon=True).start()
        return order

    def next(self) -> bytes | None:
        """Return the next row's line; `None` after the last one."""
        return self._lines.get()

    def begin(self) -> None:
        """Say that a judgement begins."""
        with self._lock:
            self._judging += 1

    def end(self, line: str) -> None:
        """Say that a judgement has ended, and what it came to.

        Args:
            line: Without the line break.
        """
        with self._lock:
            self._judging -= 1
            self.write(line)

    def write(self, line: str) -> None:
        """Write one line.

        Args:
            line: Without the line break.
        """
        left = memoryview(f"{line}\n".encode())
        while left:
            left = left[os.write(self._output, left) :]

    def _listen(self) -> None:
        for line in self._input:
            self._lines.put(line)
        self._lines.put(None)
        if self._judging:
            end_with_descendants()


def end_with_descendants() -> None:
    """End this process and, if it leads a group of its own, everything in the group."""
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def main() -> None:
    """Run the worker."""
    channel = Channel()
    order = channel.open()
    try:
        asked, keywords = read_order(order)
    except (Exception, SystemExit) as error:  # noqa: BLE001  (a stranger's module is imported)
        channel.write(json.dumps({"failed": failure(_as_error(error)).reason}))
        return
    channel.write(json.dumps({"is_async": asked.is_async}))
    if asked.is_async:
        anyio.run(_judge_many, channel, asked, keywords, float(order["time_limit"]))
    else:
        _judge_each(channel, asked, keywords)


def read_order(order: Mapping[str, Any]) -> tuple[Reward, Mapping[str, Any]]:
    """Find the reward, and check that it takes the keywords.

    Args:
        order: `reward`, its name or place; `keywords`, fields for every row.

    Raises:
        UnknownRewardError: If there is no such reward.
        BatchError: If it does not take one of the keywords.
    """
    asked = find_reward(order["reward"])
    keywords: dict[str, Any] = order["keywords"]
    signature = asked.signature
    known = signature.required | signature.optional
    strange = sorted(set(keywords) - known)
    if strange and not signature.takes_rest:
        takes = ", ".join(sorted(known)) or "nothing"
        raise BatchError(f"{asked.name} has no option {', '.join(strange)}; it takes {takes}")
    return asked, keywords


def read_fields(text: bytes, where: bytes) -> dict[str, Any]:
    """Read a row.

    Args:
        text: A JSON object.
        where: How to name it to a person.

    Raises:
        RewardFieldError: If it is none, or has a number that JSON has not.
    """
    try:
        fields: object = json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise RewardFieldError(f"{where.decode()} is no JSON that can be read: {error}") from error
    if not isinstance(fields, dict):
        raise RewardFieldError(f"{where.decode()} is no JSON object with fields, but {type(fields).__name__}")
    return cast("dict[str, Any]", fields)


def _refuse(word: str) -> None:
    raise ValueError(f"JSON has no {word}")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the number {text:.40} is too large")
    return value


def write_result(number: bytes, result: RewardResult) -> str:
    """Write a result down as one line.

    Args:
        number: The row's.
        result: Its extras may be anything; what is not JSON becomes text, and what is no number `null`.
    """
    shown = result.as_json()
    shown["extras"] = {name: plain(value) for name, value in result.extras.items()}
    if result.reason is not None:
        shown["reason"] = result.reason[:MAX_REASON]
    line = json.dumps(shown, allow_nan=False)
    if len(line) > MAX_RESULT:
        line = json.dumps({**shown, "extras": {"extras_left_out": len(line)}}, allow_nan=False)
    return f"{number.decode()}\t{line}"


def _judge_each(channel: Channel, asked: Reward, keywords: Mapping[str, Any]) -> None:
    while (line := channel.next()) is not None:
        number, where, text = line.split(b"\t", 2)
        channel.begin()
        channel.end(_written(number, _judged(asked, keywords, where, text)))


def _judged(asked: Reward, keywords: Mapping[str, Any], where: bytes, text: bytes) -> RewardResult:
    try:
        return score(asked, None, **{**read_fields(text, where), **keywords})
    except (Exception, SystemExit) as error:  # noqa: BLE001  (whatever a reward raises is a failure to judge)
        return failure(_as_error(error))


async def _judge_many(
    channel: Channel, asked: Reward, keywords: Mapping[str, Any], time_limit: float
) -> None:
    async with anyio.create_task_group() as tasks:
        while (line := await anyio.to_thread.run_sync(channel.next)) is not None:
            channel.begin()
            tasks.start_soon(partial(_judge_one, channel, asked, keywords, time_limit), line)


async def _judge_one(
    channel: Channel, asked: Reward, keywords: Mapping[str, Any], time_limit: float, line: bytes
) -> None:
    number, where, text = line.split(b"\t", 2)
    try:
        fields = gather_fields(asked, None, {**read_fields(text, where), **keywords})
        result = await evaluate(asked, fields, time_limit=time_limit)
    except (Exception, SystemExit) as error:  # noqa: BLE001  (as above)
        result = failure(_as_error(error))
    channel.end(_written(number, result))


def _written(number: bytes, result: RewardResult) -> str:
    try:
        return write_result(number, result)
    except Exception as error:  # noqa: BLE001  (a stranger's objects are rendered)
        return write_result(number, failure(error))


def _as_error(error: BaseException) -> Exception:
    if isinstance(error, Exception):
        return error
    return RewardFieldError(f"the reward tried to end the program: {type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
