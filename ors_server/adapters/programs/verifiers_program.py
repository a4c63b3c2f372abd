"""Lists the tasks of a verifiers taskset and scores answers, in a separate process.

It is imported by its path, in the Python that has verifiers. The agent's answer becomes the reply of a trace
with the task's prompt, which the task's own rewards score without a runtime. Rewards that need one, toolsets
and harnesses do not run.
"""

# pyright: basic, reportMissingImports=false
# The package is in another virtual environment.

from __future__ import annotations

import importlib
import importlib.util
import inspect
import itertools
import sys
from pathlib import Path
from typing import Any

import verifiers.v1 as vf

MAX_TASKS = 1_000_000
ANSWER_FIELDS = ("answer", "gold", "target", "ground_truth", "solution")
"""Fields of a task's data that count as a right answer; the first existing one is used."""


class VerifiersTaskset:
    """The tasks of one taskset and their rewards."""

    def __init__(self, reference: str) -> None:
        """Load the taskset at `FILE.py`, `FILE.py:Class`, `module` or `module:Class`."""
        kind = _find(reference)
        from verifiers.v1.utils.generic import concrete_type  # noqa: PLC0415  (verifiers' own lookup)

        config_type = concrete_type(kind, vf.TasksetConfig, origin=vf.Taskset) or vf.TasksetConfig
        config = config_type(id=kind.__module__)
        taskset = kind(config)
        if not taskset.bounded:
            raise ValueError(f"expected a finite taskset at {reference}; {kind.__name__} is infinite")
        # The limit ends a taskset that claims to be finite and is not.
        self._tasks = list(itertools.islice(taskset, MAX_TASKS))
        if not self._tasks:
            raise ValueError(f"expected a taskset with tasks at {reference}; {kind.__name__} is empty")
        self._refuse_unplayable(reference)

    def reset(self) -> None:
        """Do nothing between two sessions: an answer leaves nothing behind."""

    def list_tasks(self) -> list[dict[str, Any]]:
        """Return each task: id, messages of the prompt, and the answer in its data, if there is one."""
        return [
            {
                "id": task.data.id or task.data.name or str(task.data.idx),
                "messages": _messages(task.data),
                "choices": [],
                "answer": _answer(task.data),
            }
            for task in self._tasks
        ]

    async def score(self, index: int, answer: str) -> dict[str, Any]:
        """Return the weighted sum of the rewards as `reward`, and each of them and each metric by name."""
        task = self._tasks[index]
        trace = _trace(task, answer)
        await task.score(trace)
        rewards = {name: reward and reward.value for name, reward in trace.rewards.items()}
        if not rewards or any(reward is None for reward in rewards.values()):
            return {"figures": {"reward": None}, "explanation": "a reward was not computed"}
        # The first figure is the reward; a reward or a metric of the task may have the same name.
        parts = {name: value for name, value in {**rewards, **trace.metrics}.items() if name != "reward"}
        return {"figures": {"reward": trace.reward, **parts}, "explanation": ""}

    def _refuse_unplayable(self, reference: str) -> None:
        # Tasks of a set are of one class, so that the first one stands for all.
        first = self._tasks[0]
        if first.NEEDS_CONTAINER or first.toolsets(first.config):
            raise ValueError(f"expected a taskset without a container and toolsets at {reference}")
        runtimes = [inspect.signature(hook).parameters.get("runtime") for hook in first.hooks("reward")]
        has_reward = any(item is None or item.default is not inspect.Parameter.empty for item in runtimes)
        if not has_reward and not first.plugged_judges():
            raise ValueError(f"expected a taskset whose rewards need no runtime at {reference}")


def _find(reference: str) -> Any:
    location, _, name = reference.rpartition(":") if ":" in reference else (reference, "", "")
    module = _load(Path(location)) if location.endswith(".py") else importlib.import_module(location)
    names = [name] if name else [*getattr(module, "__all__", ()), *vars(module)]
    members = [getattr(module, member, None) for member in names]
    kinds = [
        member
        for member in members
        if inspect.isclass(member) and issubclass(member, vf.Taskset) and member is not vf.Taskset
    ]
    if not kinds:
        raise AttributeError(f"expected a subclass of verifiers.v1.Taskset at {reference}, found none")
    return kinds[0]


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


def _messages(data: Any) -> list[dict[str, str]]:
    messages = [{"role": "system", "text": data.system_prompt}] if data.system_prompt else []
    if isinstance(data.prompt, str):
        return [*messages, {"role": "user", "text": data.prompt}]
    for message in data.prompt or []:
        text = (
            message.content if isinstance(message.content, str) else vf.TaskData(prompt=[message]).prompt_text
        )
        messages.append(
            {"role": message.role if message.role in {"system", "assistant"} else "user", "text": text or ""}
        )
    return messages


def _answer(data: Any) -> str | None:
    values = (getattr(data, name, None) for name in ANSWER_FIELDS)
    return next((str(value) for value in values if isinstance(value, str | int | float)), None)


def _trace(task: Any, answer: str) -> Any:
    from verifiers.v1.graph import MessageNode  # noqa: PLC0415  (close to the classes that use it)

    nodes = []
    messages = [vf.UserMessage(content=task.data.prompt_text), vf.AssistantMessage(content=answer)]
    for index, message in enumerate(messages):
        nodes.append(MessageNode(parent=index - 1 if index else None, message=message, sampled=index == 1))
    record = vf.TraceTask(type=type(task).__name__, data=task.data, key=task.key, hash=task.hash)
    agent = vf.AgentInfo(config=vf.AgentConfig())
    return vf.Trace(task=record, agent=agent, nodes=nodes, is_completed=True, ok=True)
