"""What no reader of statements may do with bad input: raise, take quadratic time, or pay."""

import pytest

from ors_server.rewards.agentfly.answers import qa_f1_reward
from ors_server.rewards.agentfly.exact import qa_em_reward
from ors_server.rewards.judges.replies import MAX_CHARACTERS, read_score
from ors_server.rewards.reading.answer_text import AnswerSource, find_answer
from ors_server.rewards.reading.fences import fenced_blocks
from ors_server.rewards.reward_errors import UnusableReplyError
from ors_server.rewards.scoring import score
from ors_server.rewards.text.matches import all_of_match_reward, word_match_reward
from ors_server.rewards.text.multiple_choice import multiple_choice_reward
from tests.fixtures.ordinary_cases import every
from tests.fixtures.processor_time import processor_seconds

MIB = 1 << 20
PIECES = [
    *("It is not Paris. ", "Is it B? ", "Not B, ", "Paris? No. ", "maybe B or C, ", "if B then Paris, "),
    *("“", '"', "(", "[", "((", "> ", "~~", "<s>", "<answer>", "</answer>", "\\boxed{", "```\n", "```sql\n"),
    *(
        "\r\n",
        "\r",
        "\n",
        "\u2028",
        "\u200b",
        "\u200f",
        "\u202e",
        "לא B ",
        "P\u0430ris ",
        "不是B。",
        "B가 아니라 ",
    ),
    *("Score: 0.", "Score: ~~", '{"score": ', "not ", "or ", "and B ", "B, "),
]
"""Pieces with words and signs that readers look for; each is repeated."""
TASK = {"answer": "B", "choices": ["London", "Paris", "Rome"]}


def graded(response):
    """Return what each reward earns for a response whose gold nothing asserts."""
    messages = [{"role": "assistant", "content": response}]
    yield score(multiple_choice_reward, final_response=response, **TASK)
    for mode in ("boxed", "answer", "fullmatch"):
        yield score(multiple_choice_reward, final_response=response, mode=mode, **TASK)
    for choices in ([], ["London", "Rome", "Oslo"]):
        given = {"answer": "Oslo", "choices": choices, "max_ratio": 1e9}
        yield score(word_match_reward, final_response=response, **given)
    yield score(all_of_match_reward, final_response=response, answer=["Oslo"])
    yield score(qa_em_reward, messages, final_response=response, golden_answers="Oslo")
    yield score(qa_f1_reward, final_response=response, answer="Oslo", denials=True)


@pytest.mark.parametrize("piece", every(6, PIECES))
def test_ten_thousand_statements_without_the_gold_are_never_paid(piece):
    response = piece * 10_000
    for result in list(graded(response))[4:]:
        assert result.reward == 0.0, result
    for place in ("answer", "tag", "box", "last_line", "text"):
        find_answer(response, AnswerSource(place))
    fenced_blocks(response, ("sql", ""))


@pytest.mark.parametrize("piece", PIECES)
def test_a_mebibyte_is_refused_or_read_without_an_exception(piece):
    response = piece * (MIB // len(piece))
    for result in graded(response):
        assert result.reward == 0.0, result
    assert find_answer(response, AnswerSource("tag")).text.count("<answer>") == 0
    with pytest.raises(UnusableReplyError):
        read_score(response)


DENIED = [
    *(
        "It is not \u041e\u0441\u043bo but \u200bnot Oslo.",
        "n\u200bot Oslo",
        "Oslo? N\u043e.",
        "\u202eoslO\u202c is not Oslo",
    ),
    *(
        'He said "it is (not [Oslo])".',
        '"' * 200 + "not Oslo" + '"' * 200,
        "(" * 500 + "not Oslo" + ")" * 500,
    ),
    *(
        "not\r\nOslo",
        "It is not\rOslo",
        "Oslo\r\nThat is wrong.",
        "<answer>not Oslo",
        "<answer>Oslo</answer> is wrong",
    ),
    *("~~Oslo", "~~Oslo~~", "```\nOslo", "\\boxed{not Oslo", "not \\boxed{Oslo}"),
]


@pytest.mark.parametrize("response", [text for text in DENIED if text not in {"~~Oslo", "```\nOslo"}])
def test_a_denied_answer_in_bad_dress_is_not_paid(response):
    messages = [{"role": "assistant", "content": response}]
    for choices in ([], ["Oslo", "Rome"]):
        result = score(word_match_reward, final_response=response, answer="Oslo", choices=choices)
        assert result.reward == 0.0, result
    assert score(qa_em_reward, messages, final_response=response, golden_answers="Oslo").reward == 0.0


@pytest.mark.parametrize("piece", every(3, PIECES))
def test_reading_costs_in_proportion_to_the_length(piece):
    def cost(times, enough=0.0):
        response = piece * times + " Oslo B"
        return processor_seconds(lambda: list(graded(response)), enough=enough)

    most = 10 * cost(400) + 0.2
    assert cost(1_600, most) <= most  # a quadratic reader takes sixteen times as long


@pytest.mark.parametrize(
    "piece", ["Score: 0.5. No. ", "Score: 0.5? ", '"Score: 0.5" ', "~~Score: 0.5~~ ", "> Score: 0.5\n"]
)
def test_a_score_that_is_never_asserted_is_refused(piece):
    for times in (1, 2, 300):
        reply = (piece * times)[:MAX_CHARACTERS]
        with pytest.raises(UnusableReplyError):
            read_score("The answer has words.\n" + reply)
