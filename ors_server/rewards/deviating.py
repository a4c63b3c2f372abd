"""What this library gives in the cases in which it deliberately differs from a recorded package.

Each function is one row's: it says of a recorded case whether it is one of the row's, and which number and
figures are given then. Words are compared here by a few lines of their own, not by the rewards.
"""

import ast
import math
import re
import string
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeAlias, cast

from ors_server.rewards.judges.errors import UnusableReplyError
from ors_server.rewards.judges.replies import read_score
from ors_server.rewards.math.grade import grade_math

Case: TypeAlias = Mapping[str, Any]
"""A recorded case, with `input` and `output`."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What this library gives."""

    reward: float | None
    """`None` for no number."""
    figures: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    """Figures that are not those of the package; all others are."""


NOTHING = Outcome(None)
Expect: TypeAlias = Callable[[str, Case], Outcome | None]
"""Of the name of a file and a case, what is given; `None` if the row is not about it."""

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_TAGGED = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
_CLOSED = ("yes", "no", "noanswer")
_NO_THOUGHT = frozenset({"nothink"})
_HANDED_IN = frozenset({"tool_call_answer_dict", "tool_call_answer_str"})
_WITH_TOOL = frozenset({"think_tool", "nothink", "last_tool"})
_FORMULA = re.compile(r"\^|[<>]|\\sqrt|\\\{|[a-z] ?[-+*/]|[-+*/] ?[a-z]")
_SPELLING = re.compile(
    r"(?i)boxed\{(yes|no|true|false)\}|\\fbox|\\boxed (?!\{)|\*\*|%|\([a-z]\)|\{,\}|"
    r"[\uff10-\uff19]|\\text\{[a-z]+\}"
)
_LOOSE = re.compile(r"\d ?, |\d,\d{1,2}(?!\d)|\d \d|, [A-Z]\b|[a-z]=|__")
_STATED = re.compile(r"(?i)the (?:final )?answer is (-?\d+(?:\.\d+)?)\.?")


def not_finite(_: str, case: Case) -> Outcome | None:
    """Expect no number where the package's is NaN or infinite."""
    value: Any = recorded_value(case).get("reward") if recorded_value(case) else case["output"].get("value")
    try:
        return NOTHING if isinstance(value, str | float) and not math.isfinite(float(value)) else None
    except ValueError:
        return None


def paid_by_tool(_: str, case: Case) -> Outcome | None:
    """Expect 0.1 for a tool result, and 1.0 with an exact answer."""
    given = _fields(case)
    if given.get("n_tool_messages", 0) < 1 or not isinstance(given.get("answer"), str):
        return None
    figures = compare_words(given["final_response"], [given["answer"]])
    return Outcome(1.0 if figures["em"] else 0.1, figures)


def unpaid_figures(_: str, case: Case) -> Outcome | None:
    """Expect 0 without a tool result, beside the figures of the answer."""
    given = _fields(case)
    if given.get("n_tool_messages") != 0 or not isinstance(given.get("answer"), str):
        return None
    return Outcome(0.0, compare_words(given["final_response"], [given["answer"]]))


def no_gold(vectors: str, case: Case) -> Outcome | None:
    """Expect no number where the task has no answer."""
    given = _fields(case)
    if vectors == "agentfly_gui_reward":
        is_missing = not any(given.get(name, "x") for name in ("gt_action", "gt_bbox", "gt_input_text"))
    elif vectors.startswith("agentfly_qa_em"):
        is_missing = given.get("golden_answers") == [] and given.get("trajectory") != "empty"
    elif vectors == "agentfly_ok_vqa_reward":
        is_missing = given.get("answers") == []
    elif vectors == "agentfly_infoseek_reward":
        is_missing = case["input"] == "empty answer_eval" or given.get("answer_eval") == []
    else:
        is_missing = "answer" in given and not (
            isinstance(given["answer"], str) or _are_texts(given["answer"])
        )
    if not is_missing:
        return None
    return Outcome(None, _form(given) if vectors == "agentfly_qa_em_format_reward" else {})


def form_and_answer(_: str, case: Case) -> Outcome | None:
    """Expect 0 without the form, else 0.1, and 1 for an exact answer."""
    given = _fields(case)
    golds: Any = given.get("golden_answers")
    kind = given.get("trajectory", "empty")
    if kind == "empty" or not _are_texts(golds):
        return None
    response: str = given["final_response"]
    tagged = _TAGGED.search(response)
    figures = compare_words(response if tagged is None else tagged[1], golds)
    form = _form(given)
    paid = (1.0 if figures["em"] else 0.1) if form["fmt"] else 0.0
    return Outcome(paid, {**form, "em": figures["em"], "f1": figures["f1"]})


def arguments_as_text(_: str, case: Case) -> Outcome | None:
    """Expect the answer Paris, which the recorded call hands in as JSON text."""
    given = _fields(case)
    if given.get("trajectory") != "tool_call_answer_str" or not _are_texts(given.get("golden_answers")):
        return None
    figures = compare_words("Paris", given["golden_answers"])
    return Outcome(figures["em"], {"em": figures["em"], "f1": figures["f1"]})


def no_content(_: str, case: Case) -> Outcome | None:
    """Expect 0 for a turn without content."""
    return Outcome(0.0, {"acc": 0.0}) if _fields(case).get("trajectory") == "none_content" else None


def stated_number(vectors: str, case: Case) -> Outcome | None:
    """Expect the number of a sentence to be read."""
    given = _fields(case)
    said = _STATED.fullmatch(str(given.get("final_response", "")).strip())
    if said is None or given.get("answer") != said[1] or "trajectory" in given:
        return None
    if vectors == "agentfly_math_equal_reward":
        return Outcome(1.0)
    return Outcome(1.0 if given.get("n_tool", 0) else 0.0, {"acc": 1.0})


def same_meaning(_: str, case: Case) -> Outcome | None:
    """Expect formulas to be compared by what they mean, where the package compares texts."""
    return _graded(case, _FORMULA, theirs=0.0)


def same_spelling(_: str, case: Case) -> Outcome | None:
    """Expect other ways of writing the same answer to be read."""
    return _graded(case, _SPELLING, theirs=0.0)


def other_answer(_: str, case: Case) -> Outcome | None:
    """Expect lists, other unknowns and what is no mathematics to differ."""
    return _graded(case, _LOOSE, theirs=1.0)


def broken_gold(_: str, case: Case) -> Outcome | None:
    """Expect no number where the gold is empty, or was cut off."""
    given = _fields(case)
    gold = given.get("answer")
    is_broken = isinstance(gold, str) and (not gold.strip() or gold.endswith("{"))
    return NOTHING if is_broken and _number(case) == 1.0 else None


def taken_call(vectors: str, case: Case) -> Outcome | None:
    """Expect a call to be taken by position, without a trajectory, and with several golds."""
    if "error" not in case["output"]:
        return None
    if vectors == "agentfly_math_equal_reward":
        return Outcome(1.0) if case["input"] == "positional args" else None
    given = _fields(case) or ({"final_response": "a", "answer": "a"} if _says(case, "missing traj") else {})
    golds = [given["answer"]] if isinstance(given.get("answer"), str) else given.get("answer")
    if not _are_texts(golds) or (isinstance(given["answer"], str) and "trajectory" in given):
        return None
    figures = compare_words(given["final_response"], cast("list[str]", golds))
    return Outcome(figures["f1"], figures)


def plain_return(_: str, case: Case) -> Outcome | None:
    """Expect an int or a bool to be taken."""
    said = re.search(r"returns (?:int (-?\d+)|bool)", str(case["input"]))
    return None if said is None or "error" not in case["output"] else Outcome(float(said[1] or 1))


def keyless_mapping(_: str, case: Case) -> Outcome | None:
    """Expect a mapping without `reward` to be refused."""
    return NOTHING if _says(case, "direct call: dict without reward") else None


def uncalled_parent(_: str, case: Case) -> Outcome | None:
    """Expect the class of the page to work."""
    return Outcome(1.0) if _says(case, "seed APIReward") and "error" in case["output"] else None


def refused_value(_: str, case: Case) -> Outcome | None:
    """Expect no number for NaN, infinities, None and text."""
    text = str(case["input"])
    if re.search(r"(?<![\w'])(?:-?inf|nan|None)(?!\w)", text) and not text.startswith(
        "calculate_reward: raises"
    ):
        return NOTHING
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return None
    is_mapping = isinstance(value, Mapping)
    return NOTHING if is_mapping and isinstance(cast("Case", value).get("reward"), str) else None


def model_raised(_: str, case: Case) -> Outcome | None:
    """Expect no number where the model raised."""
    return NOTHING if _fields(case).get("llm_raises") else None


def unread_reply(_: str, case: Case) -> Outcome | None:
    """Expect no number where no score can be read."""
    return NOTHING if _is_asked(case) and _read(case) is None else None


def read_reply(_: str, case: Case) -> Outcome | None:
    """Expect the score that the reply states."""
    value = _read(case) if _is_asked(case) else None
    return (
        None
        if value is None
        else Outcome(value, {"raw_score": value} if "raw_score" in recorded_value(case) else {})
    )


def refused_rating(_: str, case: Case) -> Outcome | None:
    """Expect a rating that is no number in [0, 1] to be refused."""
    said = str(case["input"])
    rating = re.match(r"add_feedback score=(.*)", said)
    if rating is None:
        return NOTHING if said.startswith("max_examples=") else None
    try:
        is_legal = 0 <= float(rating[1]) <= 1
    except ValueError:
        is_legal = False
    return None if is_legal else NOTHING


def made_folder(_: str, case: Case) -> Outcome | None:
    """Expect a rating to be kept in a folder that did not exist; it is no reward."""
    return Outcome(math.nan) if _says(case, "persist_path does not exist") else None


def failed_shop(_: str, case: Case) -> Outcome | None:
    """Expect no number where the shop failed, or gave none."""
    output = recorded_value(case).get("output")
    failed = isinstance(output, str) and output.startswith("Error webshop reward function")
    told = _fields(case).get("env_step_returns")
    paid = cast("Case", told).get("reward") if isinstance(told, Mapping) else None
    is_number = isinstance(paid, int | float) and math.isfinite(paid)
    observed = isinstance(told, Mapping) and isinstance(cast("Case", told).get("observation"), str)
    return None if not failed and is_number and observed else NOTHING


def unpaid_step(_: str, case: Case) -> Outcome | None:
    """Expect no number where the step has none."""
    told: Any = _fields(case).get("env_step_returns")
    has_none = isinstance(told, list) and told[1:2] == [None]
    return NOTHING if has_none else None


def failed_program(_: str, case: Case) -> Outcome | None:
    """Expect no number where the environment failed, and 0 where the program raised."""
    given = _fields(case)
    if given.get("env_step_raises"):
        return NOTHING
    told = given.get("env_step_returns")
    is_traceback = isinstance(told, str) and "Traceback (most recent call last)" in told
    return Outcome(0.0) if is_traceback else None


def short_gold(_: str, case: Case) -> Outcome | None:
    """Expect no number for a gold of fewer words than the n-gram has."""
    given = _fields(case)
    size = re.fullmatch(r"rouge(\d)", given["rouge"])
    words = re.findall(r"[a-z0-9]+", given["answer"].lower())
    return NOTHING if size is not None and len(words) < int(size[1]) else None


def recorded_value(case: Case) -> Mapping[str, Any]:
    """Return the mapping that the package gave; empty if it gave a number, or raised."""
    return as_mapping(as_mapping(case["output"]).get("value"))


def as_mapping(value: object) -> Mapping[str, Any]:
    """Return a mapping as such, and anything else as an empty one."""
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def compare_words(response: str, golds: Sequence[str]) -> dict[str, float]:
    """Return F1, precision, recall and exactness against the best of several golds, as HotpotQA does."""
    each = [_compare(response, gold) for gold in golds]
    best = max(each, key=lambda one: one["f1"])
    return {**best, "em": max(one["em"] for one in each)}


def _compare(response: str, gold: str) -> dict[str, float]:
    ours, theirs = _words(response), _words(gold)
    shared = sum((Counter(ours) & Counter(theirs)).values())
    is_other = (" ".join(ours) in _CLOSED or " ".join(theirs) in _CLOSED) and ours != theirs
    figures = {"em": float(ours == theirs), "f1": 0.0, "precision": 0.0, "recall": 0.0}
    if shared and not is_other:
        precision, recall = shared / len(ours), shared / len(theirs)
        f1 = 2 * precision * recall / (precision + recall)
        figures.update(f1=f1, precision=precision, recall=recall)
    return figures


def _words(text: str) -> list[str]:
    return _ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split()


def _form(given: Mapping[str, Any]) -> dict[str, float]:
    kind, response = given["trajectory"], given["final_response"]
    has_tags = float(_TAGGED.search(response) is not None)
    thinks = float(kind not in _NO_THOUGHT)
    used = float(kind in _WITH_TOOL and kind not in _HANDED_IN)
    return {"fmt_answer_tags": has_tags, "fmt_think": thinks, "fmt_tool": used, "fmt": has_tags * thinks}


def _graded(case: Case, form: re.Pattern[str], theirs: float) -> Outcome | None:
    """Return what the math grader says, where it differs from what the package gave."""
    given = _fields(case)
    response, gold = given.get("final_response"), given.get("answer")
    if not isinstance(response, str) or not isinstance(gold, str) or _number(case) != theirs:
        return None
    read = response if theirs else f"{response}\n{gold}"
    verdict = grade_math(response, gold)
    differs = verdict.status != "bad_gold" and verdict.is_equal != bool(theirs)
    return Outcome(1.0 - theirs) if differs and form.search(read) else None


def _fields(case: Case) -> Mapping[str, Any]:
    return as_mapping(case["input"])


def _number(case: Case) -> object:
    return recorded_value(case).get("reward")


def _says(case: Case, beginning: str) -> bool:
    return isinstance(case["input"], str) and case["input"].startswith(beginning)


def _are_texts(value: object) -> bool:
    listed = cast("list[object]", value) if isinstance(value, list) else []
    return bool(listed) and all(isinstance(one, str) for one in listed)


def _is_asked(case: Case) -> bool:
    """Say whether a model was asked: with fewer examples than it needs, `LearnedReward` asks none."""
    given = _fields(case)
    return "llm_reply" in given and given.get("feedback", 0) >= given.get("min_examples", 0)


def _read(case: Case) -> float | None:
    try:
        return read_score(str(_fields(case)["llm_reply"])).score
    except UnusableReplyError:
        return None
