"""One worker of a batch: a program that judges rows and writes the results, line by line.

It reads its options, then rows, and writes one line for each: the row's number, a tab, and the results. What
a reward prints goes to standard error. It ends when its input ends; if it is judging then, its owner has
gone, and it ends at once with every process that the reward started. It records in memory shared with its
owner which row it judges, and since when.
"""

import json
import math
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from functools import partial
from queue import SimpleQueue
from typing import Any, cast

import anyio
import anyio.to_thread

from ors_server.processes.offload.worker_program import kill_started
from ors_server.rewards.batch.progress import NO_ROW, PROGRESS, open_progress
from ors_server.rewards.catalogue import find_reward
from ors_server.rewards.define import Reward
from ors_server.rewards.group import evaluate_group, score_group_with, takes_group
from ors_server.rewards.reading.plain_json import plain
from ors_server.rewards.recorded_fields import fields_of_row
from ors_server.rewards.result import RewardResult
from ors_server.rewards.reward_errors import BatchError, RewardFieldError
from ors_server.rewards.reward_trajectory import OUTCOME_CHARACTERS
from ors_server.rewards.scoring import MAX_REASON, evaluate, failure, gather_fields, score

READ_BYTES = 2**16
"""Bytes of one read."""
WRITE_SECONDS = 0.005
"""How long a result may wait for others, so that cheap rewards do not wake the reader for each row."""
MAX_RESULT = 2**20
"""Characters of one result; the extras of a longer one are left out."""


class WorkerChannel:
    """The pipes to and from the worker's owner; it takes standard input and output away from the reward."""

    def __init__(self) -> None:
        # The reward gets an empty standard input, and its prints go to standard error: a `print` in a reward
        # must not break the protocol of lines.
        self._input = os.fdopen(os.dup(0), "rb")
        self._output = os.dup(1)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        sys.stdout = sys.stderr  # which is not buffered
        os.close(nothing)
        # Unbounded, but the owner sends only what `capacity` allows.
        self._pieces: SimpleQueue[list[bytes] | None] = SimpleQueue()
        self._lines: deque[bytes] = deque()
        self._waiting_lines: list[str] = []
        self._last_write = time.monotonic()
        self._progress = open_progress(int(sys.argv[2]))
        self._judging = 0
        self._lock = threading.Lock()

    def open(self) -> dict[str, Any]:
        """Read the options and start reading rows."""
        options: dict[str, Any] = json.loads(self._input.readline())
        threading.Thread(target=self._listen, daemon=True).start()
        return options

    def next(self) -> bytes | None:
        """Return the next row, `None` after the last one. Before it waits it writes the results so far."""
        if not self._lines:
            self.flush()
            piece = self._pieces.get()
            # The end stays in the queue, so that a later call returns `None` as well.
            if piece is None:
                self._pieces.put(None)
                return None
            self._lines.extend(piece)
        return self._lines.popleft()

    def begin(self, number: int) -> None:
        """Record that the judgement of a row begins."""
        with self._lock:
            self._judging += 1
        PROGRESS.pack_into(self._progress, 0, number, time.monotonic())

    def end(self, line: str) -> None:
        """Record that a judgement has ended; its line is written together with others of the same moment."""
        with self._lock:
            self._judging -= 1
            self._waiting_lines.append(line)
        # Results wait a few milliseconds for others, so that cheap rewards do not wake the owner for every
        # row.
        if time.monotonic() - self._last_write > WRITE_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write the waiting lines."""
        with self._lock:
            lines, self._waiting_lines = self._waiting_lines, []
            self._last_write = time.monotonic()
            if lines:
                self.write("\n".join(lines))

    def write(self, line: str) -> None:
        """Write one line."""
        # `os.write` to a pipe may write only a part.
        left = memoryview(f"{line}\n".encode())
        while left:
            left = left[os.write(self._output, left) :]

    def _listen(self) -> None:
        # In a thread, so that the end of the owner is noticed while a reward runs.
        rest = b""
        while piece := self._input.read1(READ_BYTES):
            *lines, rest = (rest + piece).split(b"\n")
            if lines:
                self._pieces.put(lines)
        self._pieces.put(None)
        # The owner is gone, so no process reads the result or ends what the reward started.
        if self._judging:
            end_with_descendants()


def end_with_descendants() -> None:
    """End this process, what it started and, if it leads its own process group, everything in the group."""
    kill_started()
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    # No clean-up of the interpreter: the reward's threads might never end.
    os._exit(1)


def main() -> None:
    """Run the worker."""
    channel = WorkerChannel()
    options = channel.open()
    try:
        reward, keywords = read_options(options)
    # `SystemExit` too: a module may call `sys.exit` when it is imported.
    except (Exception, SystemExit) as error:  # noqa: BLE001  (the module may raise anything)
        channel.write(json.dumps({"failed": failure(_as_error(error)).reason}))
        return
    channel.write(json.dumps({"is_async": reward.is_async}))
    if reward.is_async:
        anyio.run(_judge_many, channel, reward, keywords, float(options["time_limit"]))
    else:
        _judge_each(channel, reward, keywords)


def read_options(options: Mapping[str, Any]) -> tuple[Reward, Mapping[str, Any]]:
    """Return the reward and the keywords of the options.

    Raises:
        UnknownRewardError: If there is no such reward.
        BatchError: If the reward does not take one of the keywords.
        RewardDefinitionError: If a package or a setting is missing without which it judges nothing.
    """
    reward = find_reward(options["reward"])
    keywords: dict[str, Any] = options["keywords"]
    signature = reward.signature
    accepted = signature.required | signature.optional
    strange = sorted(set(keywords) - accepted)
    if strange and not signature.takes_rest:
        takes = ", ".join(sorted(accepted)) or "nothing"
        raise BatchError(f"{reward.name} has no option {', '.join(strange)}; it takes {takes}")
    reward.check_usable(keywords)
    return reward, keywords


def read_fields(text: bytes, where: bytes) -> dict[str, Any]:
    """Read a row of JSON; `where` names it in messages.

    Raises:
        RewardFieldError: If it is not an object, or has a number that JSON does not have.
    """
    try:
        fields: object = _decoder.decode(text.decode())
    except (ValueError, RecursionError) as error:
        raise RewardFieldError(f"{where.decode()} is not valid JSON: {error}") from error
    if not isinstance(fields, dict):
        raise RewardFieldError(f"{where.decode()} is not a JSON object, but {type(fields).__name__}")
    return cast("dict[str, Any]", fields)


def _refuse_constant(word: str) -> None:
    raise ValueError(f"JSON has no {word}")


def _read_finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the number {text:.40} is too large")
    return value


# Strict JSON both ways: NaN and infinities are no JSON, and a reward must not see them from a row.
_decoder = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_read_finite)
_encode = json.JSONEncoder(allow_nan=False).encode


def write_result(result: RewardResult) -> str:
    """Return a result as JSON; extras of other types become text, and numbers that are not finite `null`."""
    shown = result.as_json()
    shown["extras"] = {name: plain(value) for name, value in result.extras.items()}
    if result.reason is not None:
        shown["reason"] = result.reason[:MAX_REASON]
    line = _encode(shown)
    if len(line) > MAX_RESULT:
        line = _encode({**shown, "extras": {"extras_left_out": len(line)}})
    return line


def _judge_each(channel: WorkerChannel, reward: Reward, keywords: Mapping[str, Any]) -> None:
    while (line := channel.next()) is not None:
        number, group, where, text = line.split(b"\t", 3)
        channel.begin(int(number))
        try:
            fields = read_fields(text, where)
            if int(group):
                rollouts, options = read_group(reward, fields, keywords)
                results = score_group_with(reward, rollouts, **options)
            else:
                results = (score(reward, None, **{**fields, **keywords}),)
        # `SystemExit` too: a reward that calls `sys.exit` must not end the worker.
        except (Exception, SystemExit) as error:  # noqa: BLE001  (a reward may raise anything)
            results = (failure(_as_error(error)),) * max(1, int(group))
        channel.end(_write_line(number, results))


def read_group(
    reward: Reward, fields: Mapping[str, Any], keywords: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Return a group's rollouts, as trajectories in JSON, and the task's fields, which are the first row's.

    Raises:
        RewardFieldError: If the reward judges no groups, or a row is not a rollout.
        RecordError: If a row is a recorded episode that cannot be read.
    """
    if not takes_group(reward):
        raise RewardFieldError(f"{reward.name} judges each rollout by itself and takes no group")
    rows = [fields_of_row(row) for row in fields["rows"]]
    return [_rollout(row) for row in rows], {**rows[0], **keywords}


def _rollout(row: dict[str, Any]) -> Any:
    if "trajectory" in row:
        return row["trajectory"]
    if "final_response" not in row:
        raise RewardFieldError(
            f"expected a trajectory or a final_response in each row of a group, got {', '.join(row)}"
        )
    response = row["final_response"]
    metadata = {name: value for name, value in row.items() if name != "final_response"}
    return {"outcome": response[:OUTCOME_CHARACTERS], "full_outcome": response, "metadata": metadata}


async def _judge_many(
    channel: WorkerChannel, reward: Reward, keywords: Mapping[str, Any], time_limit: float
) -> None:
    async with anyio.create_task_group() as tasks:
        while (line := await anyio.to_thread.run_sync(channel.next)) is not None:
            # Several rows are judged at once, so none can be recorded: all are suspects.
            channel.begin(NO_ROW)
            tasks.start_soon(partial(_judge_one, channel, reward, keywords, time_limit), line)


async def _judge_one(
    channel: WorkerChannel, reward: Reward, keywords: Mapping[str, Any], time_limit: float, line: bytes
) -> None:
    number, group, where, text = line.split(b"\t", 3)
    try:
        fields = read_fields(text, where)
        if int(group):
            rollouts, gathered = read_group(reward, fields, keywords)
            results = await evaluate_group(reward, rollouts, gathered, time_limit=time_limit)
        else:
            gathered = gather_fields(reward, None, {**fields, **keywords})
            results = (await evaluate(reward, gathered, time_limit=time_limit),)
    except (Exception, SystemExit) as error:  # noqa: BLE001  (as above)
        results = (failure(_as_error(error)),) * max(1, int(group))
    channel.end(_write_line(number, results))
    # At once: the thread in `next` flushes only before it waits, not while it waits.
    channel.flush()


def _write_line(number: bytes, results: Sequence[RewardResult]) -> str:
    written: list[str] = []
    for result in results:
        try:
            written.append(write_result(result))
        except Exception as error:  # noqa: BLE001  (extras may be any object)
            written.append(write_result(failure(error)))
    return f"{number.decode()}\t[{', '.join(written)}]"


def _as_error(error: BaseException) -> Exception:
    if isinstance(error, Exception):
        return error
    return RewardFieldError(f"the reward tried to end the program: {type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
