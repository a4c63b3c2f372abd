"""Lists the rows of an environment in the form before verifiers 0.4 and scores answers in its own process.

It is imported by its path, in the Python that has verifiers. Such an environment is what a module's
`load_environment()` returns, as those of the Environments Hub do that are older than tasksets. The agent's
answer is the reply of the model in a rollout of verifiers itself, so that its parser and its rubric see what
they always see.
"""

# pyright: basic, reportMissingImports=false
# The package is in another virtual environment.

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import sys
from pathlib import Path
from typing import Any

import verifiers as vf
from verifiers.clients import Client

FUNCTION = "load_environment"
MAX_ROWS = 1_000_000


class ReplyingModel(Client):  # type: ignore[misc]  # verifiers has no types here
    """A model that gives one reply."""

    def __init__(self, reply: str) -> None:
        """Open nothing."""
        super().__init__(None)
        self._reply = reply

    def setup_client(self, config: Any) -> None:
        """Need no client."""

    async def get_response(self, prompt: Any, model: str, sampling_args: Any, **_: Any) -> Any:
        """Return the reply."""
        del prompt, sampling_args
        message = vf.ResponseMessage(
            content=self._reply, tool_calls=[], finish_reason="stop", is_truncated=False
        )
        return vf.Response(id="reply", created=0, model=model, usage=None, message=message)

    async def to_native_tool(self, tool: Any) -> Any:
        """Return the tool as it is: there is no endpoint with another form."""
        return tool

    async def to_native_prompt(self, messages: Any) -> Any:
        """Return the messages as they are."""
        return messages, {}

    async def get_native_response(self, *_: Any, **__: Any) -> Any:
        """Is never called: `get_response` does not ask an endpoint."""
        raise NotImplementedError

    async def raise_from_native_response(self, response: Any) -> None:
        """Have no errors of an endpoint."""

    async def from_native_response(self, response: Any) -> Any:
        """Return the response as it is."""
        return response

    async def close(self) -> None:
        """Have nothing open."""


class VerifiersEnvironment:
    """The rows of one environment and its rubric."""

    def __init__(self, reference: str) -> None:
        """Load the environment at `FILE.py`, `FILE.py:FUNCTION`, `module` or `module:FUNCTION`."""
        self._environment = _find(reference)()
        if not isinstance(self._environment, vf.SingleTurnEnv):
            kind = type(self._environment).__name__
            raise TypeError(f"expected a SingleTurnEnv from {reference}, got {kind}: it has several turns")
        if self._environment.requires_group_rollouts:
            raise ValueError(f"expected rewards of single rollouts from {reference}; some are of groups")
        self._rows = list(self._environment.get_eval_dataset(MAX_ROWS))
        if not self._rows:
            raise ValueError(f"expected an environment with rows from {reference}; its data set is empty")
        self._failures: list[Exception] = []
        self._note_failures(self._environment.rubric)

    def reset(self) -> None:
        """Do nothing between two sessions: an answer leaves nothing behind."""

    def list_tasks(self) -> list[dict[str, Any]]:
        """Return each row: id, messages of the prompt, and the answer, if there is one."""
        return [
            {
                "id": str(row.get("example_id", index)),
                "messages": [_message(message) for message in row["prompt"]],
                "choices": [],
                "answer": str(row["answer"]) if row.get("answer") not in (None, "") else None,
            }
            for index, row in enumerate(self._rows)
        ]

    async def score(self, index: int, answer: str) -> dict[str, Any]:
        """Return the rubric's reward as `reward`, and each function's by name.

        Raises:
            Exception: What a function of the rubric raised, which verifiers itself would count as 0.
        """
        self._failures.clear()
        output = await self._environment.run_rollout(
            self._rows[index], ReplyingModel(answer), "reply", {}, state_columns=[]
        )
        if self._failures:
            raise self._failures[0]
        if output.get("error"):
            raise RuntimeError(f"the rollout failed: {output['error']}")
        # The first figure is the reward.
        return {"figures": {"reward": output["reward"], **(output.get("metrics") or {})}, "explanation": ""}

    def _note_failures(self, rubric: Any) -> None:
        """Make every function of a rubric keep what it raises, since the rubric turns it into 0."""
        for part in getattr(rubric, "rubrics", ()):
            self._note_failures(part)
        rubric.funcs[:] = [self._noting(function) for function in rubric.funcs]

    def _noting(self, function: Any) -> Any:
        @functools.wraps(function)
        async def noted(*args: Any, **fields: Any) -> Any:
            try:
                result = function(*args, **fields)
                return float(await result if inspect.isawaitable(result) else result)
            except Exception as error:
                self._failures.append(error)
                raise

        return noted


def _message(message: Any) -> dict[str, str]:
    fields = message if isinstance(message, dict) else message.model_dump()
    content = fields.get("content") or ""
    if not isinstance(content, str):
        content = "\n".join(part.get("text", "") for part in content if part.get("type") == "text")
    role = fields["role"] if fields["role"] in {"system", "assistant"} else "user"
    return {"role": role, "text": content}


def _find(reference: str) -> Any:
    location, _, name = reference.rpartition(":") if ":" in reference else (reference, "", "")
    module = _load(Path(location)) if location.endswith(".py") else importlib.import_module(location)
    function = getattr(module, name or FUNCTION, None)
    if not callable(function):
        raise TypeError(f"expected a function {name or FUNCTION} at {reference}, found none")
    return function


def _load(file: Path) -> Any:
    if not file.is_file():
        raise FileNotFoundError(f"expected a Python file at {file}, which does not exist")
    sys.path.insert(0, str(file.parent))
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"expected a Python file at {file}")
    module = sys.modules[file.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
