"""The math grader: compares a response with a gold answer and returns a verdict.

The answer is extracted from the response, both texts are parsed by the grader's own parser, and the trees are
compared. No text is ever evaluated as code, and there is no signal, clock or global state; the verdict is the
same in any thread. Parsed gold answers are cached. Work is bounded before it is done
(`ors_server.rewards.math.limits`). A computer algebra system, in a separate process, decides what trees
cannot (`ors_server.rewards.math.algebra`).
"""

import functools
import itertools
from fractions import Fraction

from ors_server.rewards.math import choice_letters
from ors_server.rewards.math.algebra.verdicts import reconsider
from ors_server.rewards.math.answer_comparison import AnswerComparison
from ors_server.rewards.math.asserted import AnsweredQuestion, Assertion, read_assertion
from ors_server.rewards.math.boxes import boxed, find_boxes, unbox
from ors_server.rewards.math.dress import space_dashes, undress
from ors_server.rewards.math.echo import Prompt, has_numbers_of, read_prompt
from ors_server.rewards.math.evaluated import is_as_evaluated
from ors_server.rewards.math.everyday import date_of
from ors_server.rewards.math.extract import Candidate, answer_texts, extract
from ors_server.rewards.math.limits import ANSWER_CHARS, RESPONSE_CHARS, LimitError, MathError
from ors_server.rewards.math.math_options import MathOptions, MathVerdict, Status
from ors_server.rewards.math.normalise import unfence, unify
from ors_server.rewards.math.parsed_answer import ParsedAnswer, read
from ors_server.rewards.math.prose import find_marked, marked_texts
from ors_server.rewards.math.transcript import clean
from ors_server.rewards.math.tree import (
    Listing,
    Node,
    Number,
    PlusMinus,
    Relation,
    Set,
    SetOperation,
    Symbol,
    contains,
    symbols,
)
from ors_server.rewards.math.worded_answers import same_wording

_DEFAULT = MathOptions()
_LEFT = "equal, but left to compute"
# A plain number: a gold answer that exceeds the limits even against it does so against every answer.
_PROBE_ANSWER = Number(Fraction(355, 113))
_MAX_WORDS = 12
"""Words of a gold answer in words; a longer one is a solution that contains the answer."""


def grade_math(
    answer: str, gold: str, *, options: MathOptions = _DEFAULT, prompt: str | None = None
) -> MathVerdict:
    """Compare a response with the gold answer.

    Args:
        answer: A whole response, or only the answer. Of a text longer than 100,000 characters the end is
            used.
        gold: The gold answer, as data sets write it: LaTeX or plain, in a box or in a solution, or a letter.
        prompt: The text of the task. A sentence or formula of it, or one that only rewrites it, is not
            an answer unless it is the gold answer.

    Returns:
        The verdict. No text raises an error.

    Raises:
        WorkerLostError: The machine failed in a comparison by algebra.
    """
    try:
        # The end counts, because the answer is there. `RecursionError` is caught as well, in case a depth
        # limit is too generous for the caller's stack.
        reference = _read_gold(unify(gold[-RESPONSE_CHARS:]))
    except (LimitError, RecursionError) as error:
        return _refuse("bad_gold", f"the gold exceeds a limit: {_describe_limit(error)}", gold, answer)
    if reference is None or (not reference.is_math and _is_broken(gold)):
        why = "the gold is empty" if reference is None else "the gold's braces do not match"
        return _refuse("bad_gold", why, gold, answer)
    # Cut twice: cleaning bounds the work of `unify`, which may lengthen the text again.
    response = undress(unify(space_dashes(clean(answer)[-RESPONSE_CHARS:]))[-RESPONSE_CHARS:])
    read_question = read_prompt(prompt) if prompt else None
    assertion = Assertion(response)
    # The words of a response that is nothing but the gold answer deny nothing ("not prime" for "not prime").
    if unfence(response) != reference.text and not _is_worded_so(response, reference, options):
        # A response may write "or" between the values of a gold answer that has several.
        is_list = any(
            isinstance(tree, Listing | Set | SetOperation) or contains(tree, (PlusMinus, Relation))
            for tree in reference.trees
        )
        question = AnsweredQuestion(
            reference.text,
            read_question,
            is_list=is_list,
            must_agree=options.boxes == "agree",
            is_same=functools.partial(_is_same_value, options),
            is_closed=reference.is_math,
        )
        assertion = read_assertion(response, question)
    verdict = _grade_by_trees(assertion, reference, options, read_question)
    # An answer that is left to compute stays wrong: a second opinion, which compares values, would accept it.
    return (
        verdict if verdict.reason == _LEFT else reconsider(verdict, reference.text, assertion.text, options)
    )


def _is_worded_so(response: str, gold: ParsedAnswer, options: MathOptions) -> bool:
    """Whether a response is nothing but a gold answer in words, whose words then deny nothing."""
    if gold.is_math:
        return False
    try:
        return same_wording(gold.text, response, functools.partial(_same_reading, AnswerComparison(options)))
    except (LimitError, RecursionError):
        return False


def _is_same_value(options: MathOptions, first: str, second: str) -> bool:
    try:
        return _same_reading(AnswerComparison(options), read(first), read(second))
    except (MathError, RecursionError):
        return False


def _same_reading(comparison: AnswerComparison, first: ParsedAnswer, second: ParsedAnswer) -> bool:
    return any(comparison.same(tree, other) for tree in first.trees for other in second.trees)


def _grade_by_trees(
    response: Assertion, gold: ParsedAnswer, options: MathOptions, prompt: Prompt | None
) -> MathVerdict:
    try:
        return _grade(response, gold, options, prompt)
    except (LimitError, RecursionError) as error:
        if _gold_exceeds_limits(gold, options):
            # The blame decides the status: a gold that cannot be compared with anything is the task's fault.
            return _refuse(
                "bad_gold", f"the gold exceeds a limit: {_describe_limit(error)}", gold.text, response.text
            )
        return _refuse(
            "limit", f"the answer exceeds a limit: {_describe_limit(error)}", gold.text, response.text
        )


def _describe_limit(error: LimitError | RecursionError) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)


def _gold_exceeds_limits(gold: ParsedAnswer, options: MathOptions) -> bool:
    """Return whether a gold answer cannot be compared with any answer, not even with a plain number."""
    for tree in gold.trees:
        try:
            AnswerComparison(options).same(tree, _PROBE_ANSWER)
        except LimitError:
            continue
        return False
    return bool(gold.trees)


def explain(answer: str, gold: str, *, options: MathOptions = _DEFAULT) -> str:
    """Return one line with the compared texts and the reason of the verdict."""
    verdict = grade_math(answer, gold, options=options)
    sign = "equals" if verdict.is_equal else "is not"
    return f"{verdict.forms[1]!r} {sign} {verdict.forms[0]!r} ({verdict.status}): {verdict.reason}"


def check_gold(gold: str) -> str | None:
    """Return what is wrong with a gold answer, or `None`; to be called when a data set is loaded."""
    verdict = grade_math(f"\\boxed{{{gold}}}" if "boxed" not in gold else gold, gold)
    return None if verdict.is_equal else f"{verdict.status}: {verdict.reason}"


def _refuse(status: Status, reason: str, gold: str, answer: str) -> MathVerdict:
    return MathVerdict(is_equal=False, reason=reason, status=status, forms=(_shorten(gold), _shorten(answer)))


def _shorten(text: str) -> str:
    return text if len(text) <= ANSWER_CHARS else f"{text[:80]}…{text[-80:]}"


# The rollouts of a task come together and share its gold answer.
@functools.lru_cache(maxsize=256)
def _read_gold(gold: str) -> ParsedAnswer | None:
    gold = gold.strip()
    if not gold:
        return None
    whole = _read_bare_gold(gold) if len(find_boxes(gold)) < 2 else None  # noqa: PLR2004  (several boxes are a list)
    # A gold that is not mathematics as a whole may contain its answer, in a box or behind a marker.
    if whole is not None and whole.is_math:
        return whole
    content = boxed(gold, is_gold=True)
    if content is not None:
        return read(unbox(content)) if content.strip() else None
    candidate = extract(gold, is_strict=False, must_agree=False)
    if candidate is None:
        return whole
    # A formula or a number is stated as the answer only within a text, not within a short gold of words.
    is_in_text = candidate.source in ("formula", "number") and len(gold.split()) > _MAX_WORDS
    is_stated = candidate.source in ("tag", "marker") or is_in_text
    return candidate.reading if is_stated or whole is None else whole


def _is_broken(gold: str) -> bool:
    r"""Return whether a gold answer with LaTeX commands was cut off, or lost a brace (`\frac{1}{`)."""
    bare = gold.replace("\\{", "").replace("\\}", "")
    return "\\" in bare and bare.count("{") != bare.count("}")


def _read_bare_gold(gold: str) -> ParsedAnswer | None:
    if len(gold) > ANSWER_CHARS:
        return None
    try:
        return read(unbox(gold))
    except MathError:
        return None


def _grade(
    assertion: Assertion, gold: ParsedAnswer, options: MathOptions, prompt: Prompt | None
) -> MathVerdict:
    response = assertion.text
    if len(response) <= ANSWER_CHARS and gold.text == unfence(response):
        return _judge(gold.text, gold.text, "the same text", is_equal=True)
    # A gold `a` is a variable; choices have capital letters.
    label = None if gold.text.islower() else choice_letters.label_of(gold.text)
    verdict = (
        _grade_unboxed_choice(response, gold, label, options)
        if label is not None
        else None
        if gold.is_math and date_of(gold.text) is None
        else _grade_wording(assertion, gold, options)
    )
    if verdict is not None:
        return verdict
    candidate = extract(
        response,
        is_strict=options.extraction == "strict",
        must_agree=options.boxes == "agree",
        answers=assertion.answers,
    )
    if candidate is None:
        return _refuse("unparsed_answer", "no answer was found", gold.text, response)
    if label is not None or options.choices:
        verdict = _grade_choice(candidate, gold, label, options)
        if verdict is not None:
            return verdict
    return _compare(candidate, gold, options, prompt)


def _judge(gold: str, answer: str, reason: str, *, is_equal: bool) -> MathVerdict:
    return MathVerdict(is_equal, reason, "ok", (gold, answer))


def _grade_unboxed_choice(
    response: str, gold: ParsedAnswer, label: str, options: MathOptions
) -> MathVerdict | None:
    # A box is found by `extract`, with its own rules for several boxes.
    if "boxed" in response:
        return None
    text = unfence(response)
    alone = choice_letters.label_of(text)
    if alone is not None:
        is_equal = alone == label and not _contradicts(gold.text, text, options)
        return _judge(gold.text, alone, "compared by the letters of the choices", is_equal=is_equal)
    picked = choice_letters.label_in(response)
    if picked is None:
        return None
    marked = find_marked(response)
    stated = [*marked_texts(response)[-1:], *([marked[0].text] if marked is not None else [])]
    is_equal = picked == label and not any(
        choice_letters.label_of(text) == picked and _contradicts(gold.text, text, options) for text in stated
    )
    return _judge(gold.text, picked, "compared by the letters of the choices", is_equal=is_equal)


def _contradicts(gold: str, answer: str, options: MathOptions) -> bool:
    """Return whether both letters have a value after them, and different ones."""
    gold_text, answer_text = choice_letters.text_behind(gold), choice_letters.text_behind(answer)
    if not gold_text or not answer_text:
        return False
    try:
        gold_reading, answer_reading = read(gold_text), read(answer_text)
        comparison = AnswerComparison(options)
        return (
            gold_reading.is_math
            and answer_reading.is_math
            and not any(
                comparison.same(tree, another)
                for tree in gold_reading.trees
                for another in answer_reading.trees
            )
        )
    except MathError:
        return False


def _grade_wording(assertion: Assertion, gold: ParsedAnswer, options: MathOptions) -> MathVerdict | None:
    """Compare a gold answer in words with the possible answers; `None` if none of them has its words."""
    same = functools.partial(_same_reading, AnswerComparison(options))
    is_strict, must_agree = options.extraction == "strict", options.boxes == "agree"
    texts = answer_texts(assertion.text, is_strict=is_strict, must_agree=must_agree)
    if assertion.answers and not is_strict:
        texts += assertion.answers
    for text in texts:
        if same_wording(gold.text, text, same):
            return _judge(gold.text, text, "the same words and formulas", is_equal=True)
    return None


def _grade_choice(
    candidate: Candidate, gold: ParsedAnswer, label: str | None, options: MathOptions
) -> MathVerdict | None:
    expected = label or choice_letters.choice_of(gold.text, options.choices)
    picked = choice_letters.label_of(candidate.reading.text) or choice_letters.choice_of(
        candidate.reading.text, options.choices
    )
    if expected is None or picked is None:
        return None
    is_equal = picked == expected and not _contradicts(gold.text, candidate.reading.text, options)
    return _judge(
        gold.text, candidate.reading.text, "compared by the letters of the choices", is_equal=is_equal
    )


def _last_of_chain(answer: Node, gold: ParsedAnswer, comparison: AnswerComparison) -> Node | None:
    """Return what a chain of equations ends with, as `96` of `S = p + q = 96`; `None` for anything else.

    A chain whose sides without letters differ (`8 + 9 = 16`) ends with nothing.
    """
    if not isinstance(answer, Relation) or set(answer.operators) != {"="}:
        return None
    if len(answer.operators) == 1:  # an identity, not the equation of a line or the value of a letter
        first, last = answer.sides
        return last if not isinstance(first, Symbol) and comparison.same(first, last) else None
    if any(isinstance(tree, Relation) for tree in gold.trees):
        return None
    *earlier, last = answer.sides
    if all(symbols(side) or comparison.same(side, last) for side in earlier):
        return last
    return None


def _compare(
    candidate: Candidate, gold: ParsedAnswer, options: MathOptions, prompt: Prompt | None
) -> MathVerdict:
    answer = candidate.reading
    if gold.text == answer.text:
        return _judge(gold.text, answer.text, "the same text", is_equal=True)
    limit: LimitError | None = None
    reason = ""
    comparison = AnswerComparison(options)
    # The end of a chain is another reading of the answer, behind those of the whole text.
    trees = [
        *answer.trees,
        *(last for tree in answer.trees if (last := _last_of_chain(tree, gold, comparison))),
    ]
    for gold_tree, answer_tree in itertools.product(gold.trees, trees):
        try:
            if comparison.same(gold_tree, answer_tree):
                may_be_left = options.evaluated or prompt is not None
                if (
                    may_be_left
                    and not is_as_evaluated(answer_tree, gold_tree)
                    and (options.evaluated or _rewrites_prompt(answer.text, prompt, gold_tree, comparison))
                ):
                    # Another reading of either side may be equal and evaluated.
                    reason = _LEFT
                    continue
                return _judge(
                    gold.text,
                    answer.text,
                    f"equal ({type(gold_tree).__name__.lower()}, {candidate.source})",
                    is_equal=True,
                )
        except LimitError as error:
            # One pair beyond the limits does not matter if another pair is equal.
            limit = error
    if limit is not None:
        raise limit
    if gold.is_math and not answer.is_math:
        return _refuse("unparsed_answer", "the answer is not mathematics", gold.text, answer.text)
    return _judge(gold.text, answer.text, reason or f"different ({candidate.source})", is_equal=False)


def _rewrites_prompt(answer: str, prompt: Prompt | None, gold: Node, comparison: AnswerComparison) -> bool:
    """Return whether an answer that is left to compute only rewrites the question.

    It does so if the question has a formula that is equal to the gold answer, and if all of its numbers are
    the question's.
    """
    if prompt is None:
        return False
    if has_numbers_of(answer, prompt):
        return True
    return any(comparison.same(gold, tree) for formula in prompt.written for tree in _read_formula(formula))


def _read_formula(text: str) -> tuple[Node, ...]:
    try:
        return read(text).trees
    except (MathError, RecursionError):
        return ()
