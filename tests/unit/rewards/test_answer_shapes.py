"""One place decides what of a response is the answer: response shapes against every reward for texts."""

import json
from functools import partial

import pytest

from ors_server.rewards.adapters.trl import as_trl
from ors_server.rewards.catalogue import find_reward, list_rewards
from ors_server.rewards.reading.answer_text import AnswerSource, cut_reasoning, find_answer, read_source
from ors_server.rewards.reward_errors import RewardFieldError
from ors_server.rewards.reward_trajectory import Trajectory
from ors_server.rewards.scoring import score
from ors_server.rewards.text.matches import exact_match_reward, word_match_reward
from ors_server.rewards.text.texts import text_reward
from tests.fixtures.case_tables import tables

TABLES = tables("answer_shapes")

THOUGHT = "Maybe {right}? Or {wrong}? <answer>{wrong}</answer> Answer: {wrong}, \\boxed{{{wrong}}}\n#### 71\n"
TAGGED = TABLES["tagged"]
PLAIN = TABLES["plain"]
UNANSWERED = TABLES["unanswered"]

PARIS = {"right": "Paris", "wrong": "Rome"}
CITIES = ["London", "Paris", "Rome"]
TASKS = {
    "exact_match_reward": ({"answer": "Paris"}, PARIS),
    "normalised_match_reward": ({"answer": "Paris"}, PARIS),
    "word_match_reward": ({"answer": "Paris"}, PARIS),
    "all_of_match_reward": ({"answer": ["Paris"], "choices": CITIES}, PARIS),
    "regex_match_reward": ({"pattern": "Paris"}, PARIS),
    "strict_answer_match_reward": ({"answer": "Paris"}, PARIS),
    "multiple_choice_reward": ({"answer": "B", "choices": CITIES}, {"right": "B", "wrong": "C"}),
    "numeric_match_reward": ({"answer": "42"}, {"right": "42", "wrong": "41"}),
    "gsm8k_reward": ({"answer": "42"}, {"right": "#### 42", "wrong": "#### 41"}),
    "edit_similarity_reward": ({"answer": "Paris"}, PARIS),
    "rouge_n_reward": ({"answer": "Paris"}, PARIS),
    "rouge_l_reward": ({"answer": "Paris"}, PARIS),
    "rouge_lsum_reward": ({"answer": "Paris"}, PARIS),
    "bleu_reward": (
        {"answer": "the cat sat on mats"},
        {"right": "the cat sat on mats", "wrong": "dogs bark so very loudly"},
    ),
    "chrf_reward": ({"answer": "Paris"}, {"right": "Paris", "wrong": "London"}),
    "instruction_reward": (
        {"instructions": [{"kind": "words", "at_most": 3}, {"kind": "include", "words": ["Paris"]}]},
        PARIS,
    ),
    "json_valid_reward": ({}, {"right": '{"a": 1}', "wrong": "{a}"}),
    "json_schema_reward": ({"schema": {"type": "object"}}, {"right": '{"a": 1}', "wrong": "[1]"}),
    "json_match_reward": ({"answer": {"a": 1}}, {"right": '{"a": 1}', "wrong": '{"a": 2}'}),
    "gui_point_reward": ({"answer": [0.5, 0.5]}, {"right": "(0.5, 0.5)", "wrong": "(0.9, 0.9)"}),
    "gui_box_reward": ({"answer": [0.4, 0.4, 0.6, 0.6]}, {"right": "(0.5, 0.5)", "wrong": "(0.9, 0.9)"}),
    "sql_match_reward": (
        {"answer": "SELECT 1", "database": "CREATE TABLE t (a INTEGER);"},
        {"right": "SELECT 1", "wrong": "SELECT 2"},
    ),
    "qa_f1_reward": ({"answer": "Paris"}, PARIS),
    "qa_f1_reward_tool": ({"answer": "Paris"}, PARIS),
    "qa_em_reward": ({"golden_answers": ["Paris"]}, PARIS),
    "qa_em_reward_tool_call": ({"golden_answers": ["Paris"]}, PARIS),
    "ok_vqa_reward": ({"answers": ["Paris"]}, PARIS),
    "infoseek_reward": ({"answer_eval": ["Paris"]}, PARIS),
    "math_string_equal_reward_tool": ({"answer": "42"}, {"right": "42", "wrong": "41"}),
}
WITHOUT_TAGS = {"qa_em_reward_tool_call"}
"""It reads the text, tags included, as AgentFly does."""
FIRST_TAG = {"qa_em_reward"}
"""It reads the first pair of tags, as AgentFly does."""
EPISODE = Trajectory(
    messages=(
        {"role": "user", "content": "Where?"},
        {"role": "tool", "content": "a"},
        {"role": "assistant", "content": "b"},
    )
)
SHAPES = {**TAGGED, **PLAIN}


def written(shape, name, said):
    words = TASKS[name][1]
    return shape.format(said=words[said], thought=THOUGHT.format(**words), **words)


def paid(name, response):
    return score(find_reward(name), EPISODE, final_response=response, **TASKS[name][0])


def is_read(name, shape):
    if name == "edit_similarity_reward" and shape == "white space around it":
        return False  # every character counts, as in rapidfuzz
    if name in WITHOUT_TAGS:
        return shape not in TAGGED
    return name not in FIRST_TAG or shape not in {
        "the last of two answer elements",
        "a solution element",
        "tags in capitals",
        "a sampler that stops at the closing tag",
    }


def test_every_reward_that_reads_an_answer_is_in_the_table():
    assert len({*SHAPES, *UNANSWERED}) >= 20
    reading = {
        entry.name
        for entry in list_rewards()
        if getattr(find_reward(entry.name).function, "answer_place", None) is not None
    }
    assert reading == {
        *TASKS,
        "gui_reward",
        "qa_em_format_reward",
    }  # an action and a form, tested beside theirs


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", TASKS)
def test_a_right_answer_earns_the_most_in_every_shape_and_a_wrong_one_less(name, shape):
    if not is_read(name, shape):
        assert paid(name, written(SHAPES[shape], name, "right")).reward < 1.0
        return
    right = paid(name, written(SHAPES[shape], name, "right"))
    assert right.status == "graded", right
    assert right.reward == paid(name, TASKS[name][1]["right"]).reward > 0.5, right
    wrong = paid(name, written(SHAPES[shape], name, "wrong"))
    assert wrong.reward == paid(name, TASKS[name][1]["wrong"]).reward < 0.5, wrong


@pytest.mark.parametrize("shape", UNANSWERED)
@pytest.mark.parametrize("name", TASKS)
def test_reasoning_that_is_never_closed_is_no_answer(name, shape):
    for said in ("right", "wrong"):
        result = paid(name, written(UNANSWERED[shape], name, said))
        assert (result.reward, result.status) == (0.0, "unparsed_answer"), result
        assert "reasoning" in result.reason


@pytest.mark.parametrize("shape", [*SHAPES, *UNANSWERED])
def test_the_math_grader_reads_the_same_answer(shape):
    for said, wanted in (("42", 1.0), ("41", 0.0)):
        form = {**SHAPES, **UNANSWERED}[shape]
        words = {"right": "42", "wrong": "41"}
        response = form.format(said=said, thought=THOUGHT.format(**words), **words)
        result = score(find_reward("math_equal_reward"), final_response=response, answer="42")
        assert result.reward == (wanted if shape in SHAPES else 0.0), response


@pytest.mark.parametrize("name", TASKS)
def test_chat_messages_are_read_for_the_last_one_without_its_reasoning(name):
    parts = [
        {"type": "reasoning", "text": TASKS[name][1]["wrong"]},
        {"type": "text", "text": TASKS[name][1]["right"]},
    ]
    messages = [
        {"role": "assistant", "content": TASKS[name][1]["wrong"]},
        {"role": "user", "content": "Sure?"},
        {"role": "assistant", "content": parts},
    ]
    assert paid(name, messages) == paid(name, TASKS[name][1]["right"])


def test_an_unreadable_gold_stays_the_author_s_fault_where_there_is_no_answer():
    assert score(exact_match_reward, final_response="<think>a", answer="").status == "bad_gold"
    assert score(find_reward("json_match_reward"), final_response="<think>a", answer="{").status == "bad_gold"


def test_an_answer_to_a_question_without_one_is_empty_and_said():
    reward = find_reward("qa_f1_reward")
    assert score(reward, final_response="<think>Nothing.</think>", answer=["the"]).extras["em"] == 1.0
    assert score(reward, final_response="<think>Nothing.", answer=["the"]).reward == 0.0


LAST_WORDS = (
    r"<think>\boxed{Oslo}</think>First <b>Rome</b>, \boxed{London}, then <answer>Oslo</answer>" + "\nParis \n"
)


@pytest.mark.parametrize(
    ("answer_from", "answer"),
    [
        ("answer", "Oslo"),
        ("tag", "Oslo"),
        ("box", "London"),
        ("last_line", "Paris"),
        ({"place": "tag", "tags": ["b"]}, "Rome"),
        ({"place": "text", "reasoning": [["<think>", "Paris \n"]]}, ""),
        (AnswerSource("last_line"), "Paris"),
        ("raw", LAST_WORDS),
        ({"place": "text", "reasoning": [["<think>", "First "]]}, LAST_WORDS.partition("First ")[2]),
        ({"place": "text", "reasoning": []}, LAST_WORDS),
    ],
    ids=str,
)
def test_a_task_says_where_the_answer_is(answer_from, answer):
    assert find_answer(LAST_WORDS, read_source(answer_from, "answer")).text == answer
    if answer:
        fields = {"final_response": LAST_WORDS, "answer": answer, "answer_from": answer_from}
        assert score(exact_match_reward, **fields).reward == 1.0


@pytest.mark.parametrize(
    ("place", "response"), [("box", r"Paris \boxed{Paris"), ("tag", "Paris"), ("box", "")]
)
def test_a_place_that_is_not_there_is_no_answer(place, response):
    result = score(word_match_reward, final_response=response, answer="Paris", answer_from=place)
    assert (result.reward, result.status, result.reason) == (
        0.0,
        "unparsed_answer",
        f"the response has no {place}",
    )


@pytest.mark.parametrize(
    "given",
    [
        "first",
        5,
        {"where": "box"},
        {"tags": "answer"},
        {"tags": [["<a>"]]},
        {"reasoning": [["", "x"]]},
        {"place": 1},
    ],
    ids=str,
)
def test_a_source_that_is_none_is_refused_by_name(given):
    with pytest.raises(RewardFieldError):
        exact_match_reward(final_response="a", answer="a", answer_from=given)


def test_every_adapter_reads_the_same_answer_and_a_partial_changes_it():
    completions = ["<think>Rome</think>Paris", [{"role": "assistant", "content": "<think>Paris</think>Rome"}]]
    trl = as_trl(word_match_reward)
    assert trl(prompts=["", ""], completions=completions, answer=["Paris", "Paris"]) == [1.0, 0.0]
    boxed = as_trl(partial(exact_match_reward, answer_from="box"))
    assert boxed(prompts=[""], completions=[r"So \boxed{Paris}."], answer=["Paris"]) == [1.0]


@pytest.mark.parametrize("gold", ["<|im_end|>", "</s>", "<s>old</s> new", "a <answer b", "[INST]"])
def test_a_gold_that_looks_like_a_mark_can_still_be_given(gold):
    assert score(exact_match_reward, final_response=gold, answer=gold).reward == 1.0


@pytest.mark.parametrize(
    "piece", ["<think>", "</think>", "<answer>", "</answer>", "\\boxed{", "<|im_end|>", "<s>", "{"]
)
def test_a_million_characters_of_marks_are_cut(piece):
    text = piece * (1_000_000 // len(piece))
    for place in ("answer", "tag", "box", "last_line"):
        assert len(find_answer(text, AnswerSource(place)).text) <= len(text)


def test_each_reward_says_what_it_reads():
    words = {"answer": "Reads: the answer", "text": "Reads: the text", None: "Reads: the raw response"}
    for entry in list_rewards():
        function = find_reward(entry.name).function
        place = getattr(function, "answer_place", None)
        if place is not None or entry.place.split(":")[0].endswith("response_format"):
            assert words[place] in (function.__doc__ or ""), entry.name


def test_a_reward_in_another_language_of_tags_is_cut_alike():
    assert cut_reasoning("<sketch>Rome</sketch>Paris", (("<sketch>", "</sketch>"),)) == "Paris"
    assert json.loads(find_answer('<think>{"a": 2}</think>{"a": 1}', AnswerSource()).text) == {"a": 1}


def said_in_response(response, answer):
    return float(response == answer)


def said_in_outcome(outcome, answer):
    return float(outcome == answer)


def said_in_completion(completion, answer):
    return float(completion == answer)


@pytest.mark.parametrize("function", [said_in_response, said_in_outcome, said_in_completion])
def test_reasoning_is_cut_under_every_name_of_the_response(function):
    fields = {"final_response": "<think>no</think> yes", "answer": "yes"}
    assert score(text_reward(function), None, **fields).reward == 1.0
