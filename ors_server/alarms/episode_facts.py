"""What an alarm knows of an ended episode: figures, words and digests, none of its texts."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from ors_server.model.policy import TOOL_COMPONENT, WITHHELD
from ors_server.model.trajectory import EpisodeRecord, EpisodeResult, Step, StepStatus, result_of
from ors_server.model.wire import compact_json

RUN_LABEL, GROUP_LABEL, STEP_LABEL = "run", "group", "step"
"""Labels by which clients name the run of an episode, its group, and the step of the trainer."""
MAX_STEPS = 2_000
"""Steps of an episode that its facts are taken from."""
_TRUNCATED = frozenset({"step_limit", "time_limit"})
_FAULTS = frozenset({StepStatus.REFUSED, StepStatus.FAILED})
_DIGEST_BYTES = 12
_STEP = re.compile(r"[0-9]{1,15}")
"""A label that is a number of steps; any other names none."""


@dataclass(frozen=True, slots=True)
class EpisodeFacts:
    """An ended episode of a run."""

    episode_id: str
    task: str
    """Digest of the task."""
    group: str
    """Episodes of one group were sampled for the same task by the same policy."""
    episode_return: float | None
    """`None` unless the episode is graded."""
    is_ungraded: bool
    """Whether it ended by its own rules, and nothing was paid or charged."""
    has_infrastructure_failure: bool
    """Whether code of the author or the machinery failed in it, a judgement included."""
    is_truncated: bool
    """Whether a limit on steps or time ended it."""
    steps: int
    components: Mapping[str, float]
    """Sums of its reward's parts by name."""
    answer: str | None
    """Digest of the last call's arguments; `None` without a call."""
    trajectory: str
    """Digest of all calls with their arguments."""
    calls: Mapping[str, int]
    """Number of calls by tool."""
    failed_calls: Mapping[str, int]
    """Number of those that were refused or failed, by tool."""
    policy_step: int | None
    """The trainer's step that the label `step` names; `None` without one."""


def facts_of(record: EpisodeRecord, steps: Sequence[Step]) -> EpisodeFacts:
    """Return the facts of an ended episode.

    Args:
        steps: Its steps in order, or the first `MAX_STEPS` of them.
    """
    origin, summary = record.origin, record.summary
    result = result_of(summary)
    labels = origin.labels
    components: Counter[str] = Counter()
    for step in steps:
        for name, amount in step.components.items():
            if name != WITHHELD:
                component = "reward" if name == TOOL_COMPONENT else name
                components[component] += amount  # type: ignore[assignment]  # sums of real numbers
    calls = Counter(step.tool for step in steps)
    arguments = [compact_json([step.tool, step.arguments]) for step in steps]
    policy_step = labels.get(STEP_LABEL, "")
    task = f"{origin.environment} {origin.task_hash}"  # two environments may have equal rows
    return EpisodeFacts(
        episode_id=origin.episode_id,
        task=task,
        group=labels.get(GROUP_LABEL) or f"{task} {policy_step}",
        episode_return=summary.episode_return if result is EpisodeResult.GRADED else None,
        is_ungraded=result is EpisodeResult.UNGRADED,
        has_infrastructure_failure=bool(summary.failed_steps or summary.unjudged_steps)
        or result is EpisodeResult.FAILED,
        is_truncated=summary.stop_reason in _TRUNCATED,
        steps=summary.steps,
        components=components,
        answer=_digest(arguments[-1:]) if arguments else None,
        trajectory=_digest(arguments),
        calls=calls,
        failed_calls=Counter(step.tool for step in steps if step.status in _FAULTS),
        policy_step=int(policy_step) if _STEP.fullmatch(policy_step) else None,
    )


def _digest(texts: Sequence[str]) -> str:
    whole = blake2b(digest_size=_DIGEST_BYTES)
    for text in texts:
        whole.update(text.encode("utf-8", "surrogatepass") + b"\n")
    return whole.hexdigest()
