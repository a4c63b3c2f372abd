"""Records the replies of a judge's model, and repeats them without the model: for tests and CI."""

import json
import threading
from collections import deque
from collections.abc import Sequence
from pathlib import Path

import anyio.lowlevel
import anyio.to_thread

from ors_server.rewards.judges.judge_model import Completion, JudgeModel, Message, Sampling, Schema, key_of
from ors_server.rewards.reward_errors import JudgeError, JudgeSettingsError


class RecordingJudge:
    """Asks a model, and appends every question and reply to a file, one JSON object per line."""

    def __init__(self, model: JudgeModel, path: Path | str) -> None:
        self.name = model.name
        self.sampling = model.sampling
        self._model = model
        self._path = Path(path)
        self._lock = threading.Lock()

    async def complete(
        self, messages: Sequence[Message], schema: Schema | None = None, *, sample: int = 0
    ) -> Completion:
        """Ask the model, and record its reply; a `JudgeError` of the model is not recorded."""
        completion = await self._model.complete(messages, schema, sample=sample)
        row = {
            "key": key_of(self._model, messages, schema, sample),
            "model": self.name,
            "messages": [dict(message) for message in messages],
            "reply": completion.as_json(),
        }
        await anyio.to_thread.run_sync(self._append, json.dumps(row) + "\n")
        return completion

    def _append(self, line: str) -> None:
        with self._lock, self._path.open("a", encoding="utf-8") as file:
            file.write(line)


class ReplayingJudge:
    """Repeats the replies of a recording. A question that is not in it is an error.

    Args:
        name: Name of the recorded model.
        sampling: The model's sampling when it was recorded.

    Raises:
        JudgeSettingsError: If the file is not a recording.
    """

    def __init__(self, path: Path | str, *, name: str, sampling: Sampling | None = None) -> None:
        self.name = name
        self.sampling = sampling or Sampling()
        self._path = Path(path)
        self._replies: dict[str, deque[Completion]] = {}
        for number, line in enumerate(self._path.read_text(encoding="utf-8").splitlines(), 1):
            try:
                row = json.loads(line)
                self._replies.setdefault(row["key"], deque()).append(Completion(**row["reply"]))
            except (ValueError, TypeError, KeyError) as error:
                raise JudgeSettingsError(
                    f"{self._path}, line {number} is not a recorded reply: {error}"
                ) from error

    async def complete(
        self, messages: Sequence[Message], schema: Schema | None = None, *, sample: int = 0
    ) -> Completion:
        """Return the recorded reply; several replies to the same question are returned in order.

        Raises:
            JudgeError: If the question is not in the recording.
        """
        await anyio.lowlevel.checkpoint()
        key = key_of(self, messages, schema, sample)
        replies = self._replies.get(key)
        if not replies:
            excerpt = messages[-1]["content"][-200:] if messages else ""
            raise JudgeError(
                f"{self._path} has no reply of {self.name} to this question (key {key[:16]}), which ends in "
                f"{excerpt!r}; record it again if the prompt, the model or the sampling has changed"
            )
        return replies.popleft() if len(replies) > 1 else replies[0]
