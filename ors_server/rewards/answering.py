"""Which part of a response a reward reads, and how a task changes that: the field `answer_from`."""

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, TypeVar, cast

from ors_server.rewards.reading.answer_text import AnswerFrom, FoundAnswer, Place, find_answer, read_source
from ors_server.rewards.result import RewardResult, RewardStatus
from ors_server.rewards.reward_trajectory import from_messages, is_conversation
from ors_server.rewards.signature import ALIASES

Function = TypeVar("Function", bound=Callable[..., Any])

FIELD = "answer_from"
RESPONSE = "final_response"
_READS: Mapping[str, str] = {
    "answer": "Reads: the answer (`answer_from`): reasoning is cut, and the last `<answer>` counts, if any.",
    "text": "Reads: the text (`answer_from`): reasoning is cut, and nothing else.",
}
"""The paragraph of a reward's documentation about the place that it reads."""


def reads_answer(
    place: Place = "answer", max_characters: int | None = None
) -> Callable[[Function], Function]:
    """Give a reward the answer of a response, in place of the whole of it.

    The reward gets another optional field, `answer_from`: a place, or an object with `place`, `reasoning`
    (tags that are cut) and `tags` (tags around an answer). Chat messages are read for the assistant's last
    one. Where there is no answer, the reward receives the empty text, so that an unreadable gold is still
    reported; the result is then 0 in every case, with the reason.

    Args:
        place: What it reads by default.
        max_characters: Characters of the longest answer that is read; a longer one does not count.
    """

    def decorate(function: Function) -> Function:
        for documented in (function, inspect.unwrap(function)):
            documented.__doc__ = _document_place(inspect.getdoc(function) or "", place)
        signature = inspect.signature(function)
        names = list(signature.parameters)
        response_name = next((name for name in names if ALIASES.get(name) == RESPONSE), RESPONSE)

        @wraps(function)
        def judged(*args: Any, answer_from: AnswerFrom = None, **fields: Any) -> Any:
            if args:
                fields.update(zip(names, args, strict=False))
            source = read_source(answer_from, place)
            response = fields.get(response_name)
            if not isinstance(response, str) and is_conversation(response):
                response = fields[response_name] = from_messages(response).final_response
            if not isinstance(response, str):
                return function(**fields)
            extracted = _refuse_long_answer(find_answer(response, source), max_characters)
            fields[response_name] = extracted.text
            raw = function(**fields)
            return raw if extracted.problem is None else _pay_nothing(raw, extracted.problem)

        option = inspect.Parameter(FIELD, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=AnswerFrom)
        parameters = list(signature.parameters.values())
        rest = [parameter for parameter in parameters if parameter.kind is inspect.Parameter.VAR_KEYWORD]
        own = [parameter for parameter in parameters if parameter not in rest]
        cast("Any", judged).__signature__ = signature.replace(parameters=[*own, option, *rest])
        cast("Any", judged).answer_place = place
        return cast("Function", judged)

    return decorate


def _document_place(documentation: str, answer_place: Place) -> str:
    """Add the paragraph "Reads:" before "Source:", unless the documentation has one."""
    if "Reads:" in documentation or answer_place not in _READS:
        return documentation
    return documentation.replace("\nSource:", f"\n{_READS[answer_place]}\n\nSource:", 1)


def _refuse_long_answer(answer: FoundAnswer, max_characters: int | None) -> FoundAnswer:
    length = len(answer.text)
    if max_characters is None or length <= max_characters:
        return answer
    return FoundAnswer("", f"the answer has {length} characters; at most {max_characters} are read")


def _pay_nothing(raw: object, problem: str) -> RewardResult:
    result = RewardResult.from_raw(raw)
    if result.reward is None:
        return result
    return RewardResult(0.0, RewardStatus.UNPARSED_ANSWER, result.extras, problem)
