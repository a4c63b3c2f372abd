"""Where this library's rewards deliberately differ from the packages whose names they have: one table.

The vectors are recordings of those packages. The tests play every recorded case: either the value agrees, or
a row here says what differs and why. A row that no case needs fails the tests too.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

Becomes: TypeAlias = Literal["error", "number", "accepted"]
"""What ours does: report no number, give another number, or accept what theirs refuses."""


@dataclass(frozen=True, slots=True)
class Deviation:
    """One deliberate difference."""

    vectors: str
    """Name of the vector file, without its ending; several with spaces between."""
    what: str
    """What differs: theirs, then ours."""
    why: str
    becomes: Becomes
    name: str
    """Of the difference, by which the tests find the cases that it covers; several rows may share one."""
    gives: tuple[float, ...] = ()
    """The numbers that ours may give, for the page; empty for none, or for any."""

    @property
    def files(self) -> tuple[str, ...]:
        """The names of the vector files."""
        return tuple(self.vectors.split())


_EXACT_MATCH = "agentfly_qa_em_reward agentfly_qa_em_format_reward agentfly_qa_em_reward_tool_call"
_MATH_IN_TURNS = "agentfly_math_equal_reward_think agentfly_math_reward_thought_with_tool"
_CONVENTION = "a judge without a verdict is an error: a failure is never a reward"

DEVIATIONS: tuple[Deviation, ...] = (
    Deviation(
        "arise_composite_reward",
        "A part or the sum of the weights is NaN or infinite, and so is the mean. Ours is an error.",
        "NaN and infinities are refused wherever a reward is made",
        "error",
        "not_finite",
    ),
    Deviation(
        "agentfly_qa_f1_reward_tool",
        "From two tool results on the F1, else 0. Ours: 0.1 for a tool result, 1.0 with an exact answer.",
        "the documented contract: 0.0 without a tool, 0.1 with a wrong answer, 1.0 with a right one",
        "number",
        "paid_by_tool",
        (0.1, 1.0),
    ),
    Deviation(
        "agentfly_qa_f1_reward_tool",
        "Without enough tool results every figure is 0. Ours has the figures of the answer beside the 0.",
        "they are metrics, and a trainer may use those of the answer",
        "number",
        "unpaid_figures",
        (0.0,),
    ),
    Deviation(
        f"agentfly_qa_f1_reward agentfly_qa_f1_reward_tool agentfly_infoseek_reward agentfly_ok_vqa_reward "
        f"agentfly_gui_reward {_EXACT_MATCH}",
        "There is no gold answer: 0, or AttributeError, IndexError, ValueError, by the reward. Ours is "
        "bad_gold.",
        "the task is at fault and not the answer: a failure is never a reward",
        "error",
        "no_gold",
    ),
    Deviation(
        "agentfly_qa_em_format_reward",
        "It always raises KeyError. Ours: 0 where a turn has no thought or the answer no tags, else 0.1, 1 "
        "for an exact answer.",
        "its own documentation states these rewards",
        "accepted",
        "form_and_answer",
        (0.0, 0.1, 1.0),
    ),
    Deviation(
        "agentfly_qa_em_reward_tool_call",
        "Arguments that are JSON text are compared as they are, braces and all. Ours reads them.",
        "tool calls have their arguments as text wherever OpenAI's format is spoken",
        "number",
        "arguments_as_text",
        (0.0, 1.0),
    ),
    Deviation(
        _MATH_IN_TURNS,
        "A turn without content: ValueError. Ours reads it as a turn without a thought: 0.",
        "a turn that only calls tools has no content in OpenAI's format",
        "accepted",
        "no_content",
        (0.0,),
    ),
    Deviation(
        "agentfly_math_equal_reward agentfly_math_equal_reward_tool",
        "A number that is stated without a box (the answer is 42) is not an answer. Ours reads it.",
        "the number that a sentence states is its answer; a task may ask for a box",
        "number",
        "stated_number",
        (0.0, 1.0),
    ),
    Deviation(
        "agentfly_math_equal_reward",
        "Formulas that its parser does not know are compared as text: sums in another order, expanded "
        "products, turned inequalities, sets. Ours compares what they mean.",
        "the contract is mathematical equality",
        "number",
        "same_meaning",
        (1.0,),
    ),
    Deviation(
        "agentfly_math_equal_reward",
        "The case of words counts; a box without braces, an \\fbox, bold type, a percentage, a choice in "
        "brackets, number words and digits of other scripts are not read. Ours reads them.",
        "they are ways of writing the same answer",
        "number",
        "same_spelling",
        (1.0,),
    ),
    Deviation(
        "agentfly_math_equal_reward",
        "Commas, spaces and the left side of an equation are dropped, and the parser passes over what it "
        "does not know, so that \\boxed{42, 7} is 42, 1,2 is 12, 4 2 is 42, k=3 is n=3 and pi+__x is pi. "
        "Ours says that they differ.",
        "an answer that lists numbers, has another unknown or is not mathematics is a different answer",
        "number",
        "other_answer",
        (0.0,),
    ),
    Deviation(
        "agentfly_math_equal_reward",
        "An empty answer equals an empty gold, and a gold that was cut off equals itself: 1.0. Ours is "
        "bad_gold.",
        "an empty or broken gold cannot be answered: a failure is never a reward",
        "error",
        "broken_gold",
    ),
    Deviation(
        "agentfly_math_equal_reward agentfly_qa_f1_reward agentfly_reward_framework",
        "The form of a call is refused: fields by position, no trajectory where none is looked at, several "
        "golds in a list. Ours takes them.",
        "ARISE calls rewards by position; a reward takes what it needs; data sets have several golds",
        "accepted",
        "taken_call",
    ),
    Deviation(
        "agentfly_reward_framework",
        "A decorated function that returns an int or a bool: ValueError. Ours takes them.",
        'the page says "float or dict"; `return 1` returns a number',
        "accepted",
        "plain_return",
        (1.0,),
    ),
    Deviation(
        "agentfly_reward_framework",
        "A direct call passes a mapping without `reward`. Ours refuses it.",
        "the page asks for the key; the same mapping is refused one call later",
        "error",
        "keyless_mapping",
    ),
    Deviation(
        "agentfly_reward_framework",
        "A class without `super().__init__()` fails with AttributeError. Ours works.",
        "it is the page's own example",
        "accepted",
        "uncalled_parent",
    ),
    Deviation(
        "agentfly_reward_result_from_raw agentfly_reward_framework",
        "NaN and infinities pass, None is 0 and text is read as a number. Ours refuses all of them.",
        "a reward is a finite number that something computed",
        "error",
        "refused_value",
    ),
    Deviation(
        "arise_llm_judge_reward",
        "The model raised: 0.5. Ours is an error.",
        _CONVENTION,
        "error",
        "model_raised",
    ),
    Deviation(
        "arise_llm_judge_reward",
        "The reply states no score, two that differ, or one that is not in [0, 1] (10, -0.5, 1e5, prose, "
        "nothing): the first number anywhere, clamped to [0, 1], or 0.5. Ours asks again, three times at "
        "most, then is an error.",
        "the documented scale is 0 to 1, so -0.5 does not mean 0.5; the first number of a sentence is "
        "often that of a step or a task",
        "error",
        "unread_reply",
    ),
    Deviation(
        "arise_llm_judge_reward",
        "The score is a fraction or a percentage, is written with a sign, an exponent or no leading zero, "
        "or is not the first number: the first digits count (.5 is 5, and 8/10 is 8, so 1.0). Ours reads "
        "the score.",
        "8/10 and 80% are 0.8, and .5 is a half; the last verdict counts, and reasoning does not",
        "number",
        "read_reply",
    ),
    Deviation(
        "arise_learned_reward",
        "The reply states no score, two that differ, or one that is not in [0, 1]: `task_success`, the "
        "nearest end, 1.0. Ours asks again, three times at most, then is an error.",
        f"{_CONVENTION}; the page says that `task_success` is for too few examples, and for nothing else",
        "error",
        "unread_reply",
    ),
    Deviation(
        "arise_learned_reward",
        "The score is a fraction or a percentage, or is among words: not read, so `task_success`. Ours "
        "reads it.",
        "what can be read safely needs no second question; the last verdict counts",
        "number",
        "read_reply",
    ),
    Deviation(
        "arise_learned_reward",
        "A rating that is not a number in [0, 1] (3, NaN, None) is kept. Ours raises `RewardValueError`.",
        "the page's scale is 0 to 1, and one such rating spoils every later prompt",
        "error",
        "refused_rating",
    ),
    Deviation(
        "arise_learned_reward",
        "A `persist_path` that does not exist: FileNotFoundError at the first rating. Ours makes it.",
        'the page\'s own example, persist_path="./feedback", has to work on a fresh machine',
        "accepted",
        "made_folder",
    ),
    Deviation(
        "agentfly_llm_as_judge_reward",
        "The reply states no score, two that differ, or one outside [0, 1]: 0.0, or the nearest end. Ours "
        "asks again, three times at most, then is an error.",
        _CONVENTION,
        "error",
        "unread_reply",
    ),
    Deviation(
        "agentfly_llm_as_judge_reward",
        "The score is a fraction or a percentage, is in a JSON object, or has words after it: 0.0. Ours "
        "reads it.",
        "what can be read safely needs no second question",
        "number",
        "read_reply",
    ),
    Deviation(
        "agentfly_webshop_reward",
        "The environment is not available, raises, or returns no observation or no number: 0.0, with the "
        "failure as output. Ours is an error.",
        "a failure is never a reward: the agent may have bought the right thing",
        "error",
        "failed_shop",
    ),
    Deviation(
        "agentfly_alfworld_episode_reward",
        "The environment's step has no reward: 0.0. Ours is an error.",
        "without a number there is no judgement; ALFWorld itself returns 0 for a task that is not done",
        "error",
        "unpaid_step",
    ),
    Deviation(
        "agentfly_code_reward_test",
        "The environment raises or runs out of time: 0.0, with the failure as output. Ours is an error. "
        "(A traceback in what it returns: 1.0; ours is the documented 0.0.)",
        "a failure is never a reward: it is not known whether the program runs",
        "error",
        "failed_program",
    ),
    Deviation(
        "rouge_score",
        "A gold of fewer words than the n-gram has: 0.0 for every response. Ours is bad_gold.",
        "no response could be right: the task is at fault and not the answer",
        "error",
        "short_gold",
    ),
)


def deviations_of(vectors: str) -> tuple[Deviation, ...]:
    """Returns the rows about one vector file, which is named without its ending."""
    return tuple(one for one in DEVIATIONS if vectors in one.files)
