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
            text = inspect.getdoc(function) or ""
            # A reward that describes the place itself has the paragraph already.
            if "Reads:" not in text and place in _READS:
                text = text.replace("\nSource:", f"\n{_READS[place]}\n\nSource:", 1)
            documented.__doc__ = text
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
            extracted = find_answer(response, source)
            length = len(extracted.text)
            if max_characters is not None and length > max_characters:
                problem = f"the answer has {length} characters; at most {max_characters} are read"
                extracted = FoundAnswer("", problem)
            fields[response_name] = extracted.text
            raw = function(**fields)
            if extracted.problem is None:
                return raw
            result = RewardResult.from_raw(raw)
            if result.reward is None:
                return result
            return RewardResult(0.0, RewardStatus.UNPARSED_ANSWER, result.extras, extracted.problem)

        option = inspect.Parameter(FIELD, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=AnswerFrom)
        parameters = list(signature.parameters.values())
        rest = [parameter for parameter in parameters if parameter.kind is inspect.Parameter.VAR_KEYWORD]
        own = [parameter for parameter in parameters if parameter not in rest]
        cast("Any", judged).__signature__ = signature.replace(parameters=[*own, option, *rest])
        cast("Any", judged).answer_place = place
        return cast("Function", judged)

    return decorate
