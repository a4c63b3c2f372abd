"""A reward function of TRL's trainers for the rollouts of `trl.experimental.openreward`.

TRL keeps the last reward that is not null, and continues after an answer that is an error. Under the policy
`emit="dense"` that would train on what was paid before a judgement failed. The server's answers count the
steps whose judgement failed, so that a rollout with such a step can be left out. This module imports nothing
of TRL, whose rollouts it reads by their attributes.
"""

import logging
from collections.abc import Sequence
from typing import Any

_log = logging.getLogger(__name__)


def trl_returns(environments: Sequence[Any], **_: Any) -> list[float | None]:
    """Return the return of each rollout; give it to TRL's `GRPOTrainer` as `reward_funcs`.

    TRL leaves a rollout out of training whose return is `None`. That is so where nothing was paid, where a
    judgement failed, and where a call before the end of the episode was answered with an error, because
    it is unknown then whether it was judged. The log names the reason of the last two.

    Args:
        environments: The trainer's environments, made by `OpenRewardSpec.environment_factory`, with
            `rewards` and `metadata` of every call in their order, and `finished`.
        **_: Other arguments that TRL passes to reward functions.
    """
    return [_return_of(environment) for environment in environments]


def _return_of(environment: Any) -> float | None:
    reason = _why_unjudged(environment)
    if reason is not None:
        _log.warning("a rollout is left out of training: %s", reason)
        return None
    paid = [reward for reward in environment.rewards if reward is not None]
    return sum(paid) if paid else None


def _why_unjudged(environment: Any) -> str | None:
    answers = [metadata for metadata in environment.metadata if metadata is not None]
    episode: dict[str, Any] = answers[-1].get("episode", {}) if answers else {}
    if episode.get("unjudged_steps"):
        return f"a judgement failed in {episode['unjudged_steps']} of {episode.get('step')} steps"
    # The client refuses calls after the end of an episode, which changes nothing about its rewards.
    if not environment.finished and environment.metadata and environment.metadata[-1] is None:
        return "the server answered a call with an error before the end of the episode"
    return None
