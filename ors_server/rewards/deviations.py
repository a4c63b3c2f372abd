"""Where this library's rewards deliberately differ from the packages whose names they have: one table.

The vectors are recordings of those packages. The tests play every recorded case: either the value agrees, or
a row here says what differs and why. A row that no case needs fails the tests too.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

Becomes: TypeAlias = Literal["error", "number", "accepted"]
"""What ours does: refuse or report no number, give another number, or go on where theirs raised."""


@dataclass(frozen=True, slots=True)
class Deviation:
    """One deliberate difference."""

    vectors: str
    """Name of the vector file, without its ending; several with spaces between."""
    what: str
    """What differs: theirs, then ours."""
    why: str
    becomes: Becomes
    pattern: str = ""
    """Regular expression found in the JSON text of the inputs that it is about; empty for any."""
    gives: tuple[float, ...] = ()
    """What ours may give where it is a number; empty for any."""

    @property
    def files(self) -> tuple[str, ...]:
        """The names of the vector files."""
        return tuple(self.vectors.split())

    def covers(self, vectors: str, case: Mapping[str, Any]) -> bool:
        """Whether a recorded case is what this is about.

        Args:
            vectors: Name of its file, without the ending.
            case: The case, with its `input`.
        """
        text = json.dumps(case["input"], ensure_ascii=False, sort_keys=True)
        return vectors in self.files and re.search(self.pattern, text) is not None

    def explains(self, vectors: str, case: Mapping[str, Any], ours: float | None) -> bool:
        """Whether this says why ours is not theirs.

        Args:
            vectors: Name of the case's file, without the ending.
            case: The case, with its `input` and `output`.
            ours: What this library gives; `None` for no number.
        """
        if not self.covers(vectors, case):
            return False
        if ours is None:
            return self.becomes == "error"
        raised = isinstance(case["output"], Mapping) and "error" in case["output"]
        return self.becomes == ("accepted" if raised else "number") and (not self.gives or ours in self.gives)


_NO_SCORE = r'"llm_reply": "(?!\s*[01](\.\d*)?\s*")'
"""A reply that is more, or less, than a plain number that begins with 0 or 1."""
_CONVENTION = "a judge that came to no verdict is an error: a failure is never a reward"

DEVIATIONS: tuple[Deviation, ...] = (
    Deviation(
        "arise_llm_judge_reward",
        "The model raised: 0.5. Ours is an error.",
        _CONVENTION,
        "error",
        r'"llm_raises"',
    ),
    Deviation(
        "arise_llm_judge_reward",
        "The reply has no number in [0, 1] alone at its end (8/10, 85%, -0.5, 1e5, prose, nothing): the "
        "first number anywhere, clamped to [0, 1], or 0.5. Ours asks again, three times at most, then is an "
        "error.",
        "the documented scale is 0 to 1, so 8/10 is no 1.0 and -0.5 no 0.5; the first number of a sentence "
        "is that of a step or a task as often as a score",
        "error",
        _NO_SCORE,
    ),
    Deviation(
        "arise_llm_judge_reward",
        "The reply has several numbers, or one that is written with a sign, an exponent or no leading zero: "
        "the first digits count (.5 is 5, so 1.0). Ours reads the number at the end of the reply.",
        "the last verdict binds, and thoughts are none; .5 is a half",
        "number",
        _NO_SCORE,
    ),
    Deviation(
        "arise_learned_reward",
        "The reply is no number, or not in [0, 1], or NaN: `task_success`, the nearest end, 1.0. Ours asks "
        "again, three times at most, then is an error.",
        f"{_CONVENTION}; the page says that `task_success` is for too few examples, and for nothing else",
        "error",
        _NO_SCORE,
    ),
    Deviation(
        "arise_learned_reward",
        "The reply has the score at its end, after thoughts, a label or another number: not read, so "
        "`task_success`. Ours reads it.",
        "what can be read safely needs no second question; the last verdict binds",
        "number",
        _NO_SCORE,
    ),
    Deviation(
        "arise_learned_reward",
        "A rating that is no number in [0, 1] (3, NaN, None) is kept. Ours raises `RewardValueError`.",
        "the page's scale is 0 to 1, and one such rating spoils every later prompt",
        "error",
        r"add_feedback score=|max_examples=",
    ),
    Deviation(
        "arise_learned_reward",
        "A `persist_path` that does not exist: FileNotFoundError at the first rating. Ours makes it.",
        'the page\'s own example, persist_path="./feedback", has to work on a fresh machine',
        "accepted",
        "does not exist",
    ),
    Deviation(
        "agentfly_llm_as_judge_reward",
        "The reply has no score, or one outside [0, 1]: 0.0, or the nearest end; NaN is 1.0. Ours asks "
        "again, three times at most, then is an error.",
        _CONVENTION,
        "error",
        _NO_SCORE,
    ),
    Deviation(
        "agentfly_llm_as_judge_reward",
        "The reply is a score of 1 in the form 0.7/1.0, or in a JSON object: 0.0. Ours reads it.",
        "what can be read safely needs no second question",
        "number",
        _NO_SCORE,
    ),
    Deviation(
        "agentfly_webshop_reward",
        "The environment cannot be had, raises, or answers with no observation or no number: 0.0, with the "
        "failure as output. Ours is an error.",
        "a failure is never a reward: the agent may have bought the right thing",
        "error",
        r'^(?!.*"observation": .*"reward": [-\d.])',
    ),
    Deviation(
        "agentfly_alfworld_episode_reward",
        "The environment's step has no reward: 0.0. Ours is an error.",
        "no number is no judgement: ALFWorld itself says 0 of a task that is not done",
        "error",
        r'"env_step_returns": \[[^\[\]]*?, null',
    ),
    Deviation(
        "agentfly_code_reward_test",
        "The environment raises or runs out of time: 0.0, with the failure as output. Ours is an error. "
        "(A traceback in what it returns: 1.0; ours is the documented 0.0.)",
        "a failure is never a reward: whether the program runs is not known",
        "error",
        r'"env_step_raises"',
    ),
)


def deviations_of(vectors: str) -> tuple[Deviation, ...]:
    """Return the rows about one vector file.

    Args:
        vectors: Its name, without the ending.
    """
    return tuple(one for one in DEVIATIONS if vectors in one.files)
