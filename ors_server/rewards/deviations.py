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
_EXACT_MATCH = "agentfly_qa_em_reward agentfly_qa_em_format_reward agentfly_qa_em_reward_tool_call"
_MATH_IN_TURNS = "agentfly_math_equal_reward_think agentfly_math_reward_thought_with_tool"
_NO_BOX = r'"final_response": "(?!.*boxed)[^"]*[A-Za-z]{1,}[^"]*\d'
"""A number in a sentence without a box."""
_RIGHT = (0.0, 1.0)
"""Right without a tool, and with one."""
_NO_GOLD = (
    r'"answer": (null|true|false|\{|-?\d)|"(golden_answers|answers|answer_eval)": \[\]|empty answer_eval'
    r'|"gt_action": "", "gt_bbox": \[\], "gt_input_text": ""'
)
_CONVENTION = "a judge that came to no verdict is an error: a failure is never a reward"

DEVIATIONS: tuple[Deviation, ...] = (
    Deviation(
        "arise_composite_reward",
        "A part or the sum of the weights is NaN or infinite, and so is the mean. Ours is an error.",
        "NaN and infinities are refused wherever a reward is made",
        "error",
        r"nan|inf|1e\+?308",
    ),
    Deviation(
        "agentfly_qa_f1_reward_tool",
        "From two tool results on the F1, else 0. Ours: 0.1 for a tool result, 1.0 with an exact answer.",
        "the documented contract: 0.0 without a tool, 0.1 with a wrong answer, 1.0 with a right one",
        "number",
        r'"n_tool_messages": [1-9]',
        (0.1, 1.0),
    ),
    Deviation(
        "agentfly_qa_f1_reward_tool",
        "Without enough tool results every figure is 0. Ours has the figures of the answer beside the 0.",
        "they are metrics: what the answer was worth is worth knowing",
        "number",
        r'"n_tool_messages": 0',
        (0.0,),
    ),
    Deviation(
        f"agentfly_qa_f1_reward agentfly_qa_f1_reward_tool agentfly_infoseek_reward agentfly_ok_vqa_reward "
        f"agentfly_gui_reward {_EXACT_MATCH}",
        "There is no gold answer: 0, or AttributeError, IndexError, ValueError, by the reward. Ours is "
        "bad_gold.",
        "a task without an answer is nobody's failure to answer it: a failure is never a reward",
        "error",
        _NO_GOLD,
    ),
    Deviation(
        "agentfly_qa_em_format_reward",
        "It always raises KeyError. Ours: 0 where a turn has no thought or the answer no tags, else 0.1, 1 "
        "for an exact answer.",
        "what its own documentation says it pays",
        "accepted",
        r'"trajectory": "(?!empty)',
        (0.0, 0.1, 1.0),
    ),
    Deviation(
        "agentfly_qa_em_reward_tool_call",
        "Arguments that are JSON text are compared as they are, braces and all. Ours reads them.",
        "tool calls have their arguments as text wherever OpenAI's format is spoken",
        "number",
        r'"trajectory": "tool_call_answer_str"',
        (0.0, 1.0),
    ),
    Deviation(
        _MATH_IN_TURNS,
        "A turn without content: ValueError. Ours reads it as a turn without a thought: 0.",
        "a turn that only calls tools has no content in OpenAI's format",
        "accepted",
        r'"trajectory": "none_content"',
        (0.0,),
    ),
    Deviation(
        f"agentfly_math_equal_reward agentfly_math_equal_reward_tool {_MATH_IN_TURNS}",
        "A number that stands in a sentence without a box is no answer. Ours reads it.",
        "the number that a sentence states is its answer; a task may ask for a box",
        "number",
        _NO_BOX,
        _RIGHT,
    ),
    Deviation(
        "agentfly_math_equal_reward",
        "Formulas that its parser does not know are compared as text: sums in another order, expanded "
        "products, turned inequalities, sets. Ours compares what they mean.",
        "mathematically equal is the contract",
        "number",
        r"\^|[<>]|\\\\sqrt|\\\\\{|[a-z] ?[-+*/]|[-+*/] ?[a-z]",
        (1.0,),
    ),
    Deviation(
        "agentfly_math_equal_reward",
        "The case of words counts; a box without braces, an \\fbox, bold type, a percentage, a choice in "
        "brackets, number words and digits of other scripts are not read. Ours reads them.",
        "they are ways of writing the same answer",
        "number",
        r"(?i)boxed\{(yes|no|true|false)\}|\\fbox|\\boxed (?!\{)|\*\*|%|\([a-z]\)|\{,\}|"
        r"[０-９]|\\text\{[a-z]+\}",  # noqa: RUF001  (digits of another script are meant)
        (1.0,),
    ),
    Deviation(
        "agentfly_math_equal_reward",
        "Commas, spaces and the left side of an equation are dropped, and the parser passes over what it "
        "does not know, so that \\boxed{42, 7} is 42, 1,2 is 12, 4 2 is 42, k=3 is n=3 and pi+__x is pi. "
        "Ours says that they differ.",
        "an answer that lists numbers, is of another unknown or is no mathematics is another answer",
        "number",
        r'"final_response": "[^"]*(\d ?, |\d,\d{1,2}(?!\d)|\d \d|, [A-Z]\b|[a-z]=|__)',
        (0.0,),
    ),
    Deviation(
        "agentfly_math_equal_reward",
        "Nothing is equal to nothing, and a gold that was cut off to itself: 1.0. Ours is bad_gold.",
        "an empty or broken gold cannot be answered: a failure is never a reward",
        "error",
        r'"answer": "([^"]*\{)?"',
    ),
    Deviation(
        "agentfly_math_equal_reward agentfly_qa_f1_reward agentfly_reward_framework",
        "The form of a call is refused: fields by position, no trajectory where none is looked at, several "
        "golds in a list. Ours takes them.",
        "ARISE calls rewards by position; a reward takes what it needs; data sets have several golds",
        "accepted",
        r'positional|(missing|without|no) trajectory|"answer": \[|^(?!.*traj).*"answer": "[^"]*", "final_',
    ),
    Deviation(
        "agentfly_reward_framework",
        "A decorated function that returns an int or a bool: ValueError. Ours takes them.",
        'the page says "float or dict"; `return 1` is a float to everybody but the check',
        "accepted",
        r"returns (int|bool)",
        (1.0,),
    ),
    Deviation(
        "agentfly_reward_framework",
        "A direct call passes a mapping without `reward`. Ours refuses it.",
        "the page asks for the key; the same mapping is refused one call later",
        "error",
        r"direct call: dict without reward",
    ),
    Deviation(
        "agentfly_reward_framework",
        "A class without `super().__init__()` fails with AttributeError. Ours works.",
        "it is the page's own example",
        "accepted",
        r"APIReward",
    ),
    Deviation(
        "agentfly_reward_result_from_raw agentfly_reward_framework",
        "NaN and infinities pass, None is 0 and text is read as a number. Ours refuses all of them.",
        "a reward is a finite number that something computed",
        "error",
        r"nan|inf|None|'reward': '",
    ),
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
    Deviation(
        "rouge_score",
        "A gold of fewer words than the n-gram has: 0.0 for every response. Ours is bad_gold.",
        "a task that nobody can answer is a fault of the task, not of the answer",
        "error",
        r'"answer": "[^ "]*",.*"rouge": "rouge2"',
    ),
    Deviation(
        "rouge_score",
        "With stemming: NLTK's extension of Porter's stemmer. Ours is Porter's second one (Porter2).",
        "the package that has it is small, kept, and reads no data files; both bring dying to die",
        "number",
        r'"stem": true',
    ),
)


def deviations_of(vectors: str) -> tuple[Deviation, ...]:
    """Return the rows about one vector file.

    Args:
        vectors: Its name, without the ending.
    """
    return tuple(one for one in DEVIATIONS if vectors in one.files)
