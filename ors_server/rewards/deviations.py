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
    theirs: str
    """What the other package does."""
    ours: str
    why: str
    becomes: Becomes
    name: str
    """Of the difference, by which the tests find the cases that it covers; several rows may share one."""
    gives: tuple[float, ...] = ()
    """The numbers that ours may give, for the page; empty for none, or for any."""

    @property
    def what(self) -> str:
        """Both sides of the difference, as one text."""
        return f"Theirs: {self.theirs} Ours: {self.ours}"

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
        "The result is NaN or infinite if a part or the sum of the weights is.",
        "An error.",
        "NaN and infinities are refused wherever a reward is made",
        "error",
        "not_finite",
    ),
    Deviation(
        "agentfly_qa_f1_reward_tool",
        "The F1 if there are two tool results, else 0.",
        "0.1 with a tool result, 1 with an exact answer too.",
        "the documented contract: 0.0 without a tool, 0.1 with a wrong answer, 1.0 with a right one",
        "number",
        "paid_by_tool",
        (0.1, 1.0),
    ),
    Deviation(
        "agentfly_qa_f1_reward_tool",
        "Every figure is 0 if there are too few tool results.",
        "The reward is 0; the figures are those of the answer.",
        "they are metrics, and a trainer may use those of the answer",
        "number",
        "unpaid_figures",
        (0.0,),
    ),
    Deviation(
        f"agentfly_qa_f1_reward agentfly_qa_f1_reward_tool agentfly_infoseek_reward agentfly_ok_vqa_reward "
        f"agentfly_gui_reward {_EXACT_MATCH}",
        "Without a gold answer: 0, or AttributeError, IndexError or ValueError, depending on the reward.",
        "`bad_gold`.",
        "the task is at fault and not the answer: a failure is never a reward",
        "error",
        "no_gold",
    ),
    Deviation(
        "agentfly_qa_em_format_reward",
        "Always raises KeyError.",
        "0 if a turn has no thought or the answer has no tags, else 0.1, or 1 for an exact answer.",
        "its own documentation states these rewards",
        "accepted",
        "form_and_answer",
        (0.0, 0.1, 1.0),
    ),
    Deviation(
        "agentfly_qa_em_reward_tool_call",
        "Compares arguments that are JSON text as they are written, including the braces.",
        "Reads the JSON.",
        "OpenAI's format has the arguments of tool calls as text",
        "number",
        "arguments_as_text",
        (0.0, 1.0),
    ),
    Deviation(
        _MATH_IN_TURNS,
        "A turn without content raises ValueError.",
        "The turn counts as one without a thought: 0.",
        "a turn that only calls tools has no content in OpenAI's format",
        "accepted",
        "no_content",
        (0.0,),
    ),
    Deviation(
        "agentfly_math_equal_reward agentfly_math_equal_reward_tool",
        "A number without a box (the answer is 42) does not count as an answer.",
        "It counts.",
        "the number that a sentence states is its answer; a task may ask for a box",
        "number",
        "stated_number",
        (0.0, 1.0),
    ),
    Deviation(
        "agentfly_math_equal_reward",
        "Formulas that its parser does not know are compared as text: sums in another order, expanded "
        "products, turned inequalities, sets.",
        "Compares their values.",
        "the contract is mathematical equality",
        "number",
        "same_meaning",
        (1.0,),
    ),
    Deviation(
        "agentfly_math_equal_reward",
        "The case of words counts. Not read are a box without braces, an \\fbox, bold type, a "
        "percentage, a choice in brackets, number words and digits of other scripts.",
        "Reads all of them; the case of words does not count.",
        "they are ways of writing the same answer",
        "number",
        "same_spelling",
        (1.0,),
    ),
    Deviation(
        "agentfly_math_equal_reward",
        "Ignores commas, spaces and the left side of an equation, and the parser skips what it does not"
        " know: \\boxed{42, 7} equals 42, 1,2 equals 12, 4 2 equals 42, k=3 equals n=3, and pi+__x "
        "equals pi.",
        "They are different.",
        "an answer that lists numbers, has another unknown or is not mathematics is a different answer",
        "number",
        "other_answer",
        (0.0,),
    ),
    Deviation(
        "agentfly_math_equal_reward",
        "An empty answer equals an empty gold, and a gold that was cut off equals itself: 1.",
        "`bad_gold`.",
        "an empty or broken gold cannot be answered: a failure is never a reward",
        "error",
        "broken_gold",
    ),
    Deviation(
        "agentfly_math_equal_reward agentfly_qa_f1_reward agentfly_reward_framework",
        "Refuses calls with fields by position, without a trajectory that the reward does not use, or "
        "with several golds in a list.",
        "Accepts them.",
        "ARISE calls rewards by position; a reward takes what it needs; data sets have several golds",
        "accepted",
        "taken_call",
    ),
    Deviation(
        "agentfly_reward_framework",
        "A decorated function that returns an int or a bool raises ValueError.",
        "Accepts both.",
        'the page says "float or dict"; `return 1` returns a number',
        "accepted",
        "plain_return",
        (1.0,),
    ),
    Deviation(
        "agentfly_reward_framework",
        "A direct call accepts a mapping without `reward`.",
        "Refuses it.",
        "the page asks for the key; the same mapping is refused one call later",
        "error",
        "keyless_mapping",
    ),
    Deviation(
        "agentfly_reward_framework",
        "A class without `super().__init__()` raises AttributeError.",
        "Works.",
        "it is the page's own example",
        "accepted",
        "uncalled_parent",
    ),
    Deviation(
        "agentfly_reward_result_from_raw agentfly_reward_framework",
        "Accepts NaN and infinities, takes None as 0, and reads text as a number.",
        "Refuses all of them.",
        "a reward is a finite number that something computed",
        "error",
        "refused_value",
    ),
    Deviation(
        "arise_llm_judge_reward",
        "0.5 if the model raises.",
        "An error.",
        _CONVENTION,
        "error",
        "model_raised",
    ),
    Deviation(
        "arise_llm_judge_reward",
        "A reply without a score, with two different ones, or with one outside of [0, 1] (10, -0.5, "
        "1e5, prose, nothing): the first number in it, clamped to [0, 1], or 0.5.",
        "Asks again, at most three times. After that, an error.",
        "the documented scale is 0 to 1, so -0.5 does not mean 0.5; the first number of a sentence is "
        "often that of a step or a task",
        "error",
        "unread_reply",
    ),
    Deviation(
        "arise_llm_judge_reward",
        "If the score is a fraction or a percentage, has a sign, an exponent or no leading zero, or is "
        "not the first number, the first digits count: .5 is 5, and 8/10 is 8, so the reward is 1.",
        "Reads the score.",
        "8/10 and 80% are 0.8, and .5 is a half; the last verdict counts, and reasoning does not",
        "number",
        "read_reply",
    ),
    Deviation(
        "arise_learned_reward",
        "A reply without a score, with two different ones, or with one outside of [0, 1]: "
        "`task_success`, the nearest end of the range, or 1.",
        "Asks again, at most three times. After that, an error.",
        f"{_CONVENTION}; the page says that `task_success` is for too few examples, and for nothing else",
        "error",
        "unread_reply",
    ),
    Deviation(
        "arise_learned_reward",
        "A score that is a fraction or a percentage, or is among words, is not read: `task_success`.",
        "Reads the score.",
        "what can be read safely needs no second question; the last verdict counts",
        "number",
        "read_reply",
    ),
    Deviation(
        "arise_learned_reward",
        "Stores a rating that is not a number in [0, 1] (3, NaN, None).",
        "Raises `RewardValueError`.",
        "the page's scale is 0 to 1, and one such rating spoils every later prompt",
        "error",
        "refused_rating",
    ),
    Deviation(
        "arise_learned_reward",
        "If `persist_path` does not exist, the first rating raises FileNotFoundError.",
        "Creates the folder.",
        'the page\'s own example, persist_path="./feedback", has to work on a fresh machine',
        "accepted",
        "made_folder",
    ),
    Deviation(
        "agentfly_llm_as_judge_reward",
        "A reply without a score, with two different ones, or with one outside of [0, 1]: 0, or the "
        "nearest end of the range.",
        "Asks again, at most three times. After that, an error.",
        _CONVENTION,
        "error",
        "unread_reply",
    ),
    Deviation(
        "agentfly_llm_as_judge_reward",
        "A score that is a fraction or a percentage, is in a JSON object, or has words after it: 0.",
        "Reads the score.",
        "what can be read safely needs no second question",
        "number",
        "read_reply",
    ),
    Deviation(
        "agentfly_webshop_reward",
        "If the environment is not available, raises, or returns no observation or no number: 0, with "
        "the failure as the output.",
        "An error.",
        "a failure is never a reward: the agent may have bought the right thing",
        "error",
        "failed_shop",
    ),
    Deviation(
        "agentfly_alfworld_episode_reward",
        "If the step of the environment has no reward: 0.",
        "An error.",
        "without a number there is no judgement; ALFWorld itself returns 0 for a task that is not done",
        "error",
        "unpaid_step",
    ),
    Deviation(
        "agentfly_code_reward_test",
        "If the environment raises or runs out of time: 0, with the failure as the output. A traceback "
        "in its output: 1.",
        "An error. A traceback in its output: 0, as documented.",
        "a failure is never a reward: it is not known whether the program runs",
        "error",
        "failed_program",
    ),
    Deviation(
        "rouge_score",
        "A gold with fewer words than the n-gram: 0 for every response.",
        "`bad_gold`.",
        "no response could be right: the task is at fault and not the answer",
        "error",
        "short_gold",
    ),
)


def deviations_of(vectors: str) -> tuple[Deviation, ...]:
    """Returns the rows about one vector file, which is named without its ending."""
    return tuple(one for one in DEVIATIONS if vectors in one.files)
