"""The bundled questions as a server plays them: what pays, what does not, and both doors."""

import json
import re
from collections import Counter
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from ors_server import qa_f1_reward
from ors_server.testing import open_environment, play
from ors_server_tasks.qa import QuestionAnswering
from ors_server_tasks.qa.generator import Encyclopaedia, open_encyclopaedia
from ors_server_tasks.qa.questions import FAMILIES

SPLITS = {"train": 600, "validation": 100, "test": 200}
LIMIT = 30.0
"""Seconds within which anything in these tests happens."""


@pytest.fixture(scope="module")
def tasks() -> dict[str, list[dict[str, Any]]]:
    return {split: QuestionAnswering.list_tasks(split) for split in SPLITS}


def book(split: str) -> Encyclopaedia:
    return open_encyclopaedia(QuestionAnswering.seed, split)


def pays(answer: str, task: dict[str, Any]) -> float:
    return qa_f1_reward(final_response=answer, answer=task["answer"])["reward"]


def mean(tasks: list[dict[str, Any]], answer: Any) -> float:
    """The mean reward of a policy: a text, or a function of the task."""
    return sum(pays(answer(task) if callable(answer) else answer, task) for task in tasks) / len(tasks)


# What the reward pays.


@pytest.mark.parametrize("split", SPLITS)
def test_every_form_of_the_gold_answer_earns_everything_and_nothing_earns_nothing(split, tasks):
    for task in tasks[split]:
        assert [pays(form, task) for form in task["answer"]] == [1.0] * len(task["answer"])
        assert [pays(nothing, task) for nothing in ("", "  ", "the", "?")] == [0.0] * 4


@pytest.mark.parametrize("split", SPLITS)
def test_yes_and_no_are_right_equally_often_and_count_only_as_the_whole_answer(split, tasks):
    asked = [task for task in tasks[split] if task["kind"] == "yes_no"]
    counts = Counter(task["answer"][0] for task in asked)
    assert counts == {"yes": len(asked) // 2, "no": len(asked) // 2}
    assert mean(asked, "yes") == mean(asked, "no") == 0.5
    assert mean(asked, "yes no") == mean(asked, "yes or no") == mean(asked, "yes, they are") == 0.0


def first_hit(split: str, place: int) -> Any:
    return lambda task: book(split).index.find(task["question"], place)[-1]


BASELINES = {
    "always yes": ("yes", 0.04),
    "always no": ("no", 0.04),
    "both": ("yes no", 0.0),
    "unknown": ("unknown", 0.0),
    "no answer": ("noanswer", 0.0),
    "the question": (lambda task: task["question"], 0.01),
    "the first title": (lambda task: first_hit("test", 1)(task).title, 0.01),
    "the second title": (lambda task: first_hit("test", 2)(task).title, 0.06),
    "the first snippet": (lambda task: first_hit("test", 1)(task).snippet, 0.05),
    "all titles": (lambda _: " ".join(book("test").articles)[:200], 0.01),
    "an article": (lambda task: book("test").articles[task["evidence"][0]].text[:200], 0.04),
}


@pytest.mark.parametrize(("policy", "most"), BASELINES.values(), ids=BASELINES)
def test_a_policy_that_does_not_read_earns_little(policy, most, tasks):
    assert mean(tasks["test"], policy) <= most + 1e-9


def test_no_single_word_earns_more_than_yes(tasks):
    words = Counter(
        word for task in tasks["test"] for form in task["answer"] for word in re.findall(r"\w+", form)
    )
    earned = {word: mean(tasks["test"], word) for word, _ in words.most_common(60)}
    assert max(earned.values()) <= 0.04 + 1e-9


def test_neither_name_of_a_comparison_is_an_answer(tasks):
    compared = [task for task in tasks["train"] if task["kind"] == "comparison"]
    assert compared
    for task in compared:
        assert all(pays(title, task) < 1.0 for title in task["evidence"][:2])
        assert mean([task], " ".join(task["evidence"][:2])) < 0.5


# The tools.


@pytest.fixture(scope="module")
def anything() -> dict[str, Any]:
    return QuestionAnswering.get_task("test", 1)


def text_of(output: Any) -> str:
    (block,) = output.blocks
    return block.text


def test_every_gold_and_every_blank_play_of_a_split_earns_the_most_and_the_least(tasks):
    async def run() -> None:
        async with open_environment("qa") as client:
            for index, task in enumerate(tasks["validation"]):
                for actions, expected in (
                    (QuestionAnswering.gold_actions(task), 1.0),
                    (QuestionAnswering.blank_actions(task), 0.0),
                ):
                    session = await client.create(split="validation", index=index)
                    for name, arguments in actions:
                        output = await session.submit(name, arguments)
                    assert (output.reward, output.finished) == (expected, True)
                    assert (await session.summary()).episode_return == expected
                    await session.aclose()

    with anyio.from_thread.start_blocking_portal() as portal:
        portal.call(run)


def test_an_answer_in_other_words_earns_their_f1_and_shows_the_figures():
    with play("qa", split="train", index=0) as episode:
        gold = QuestionAnswering.get_task("train", 0)["answer"][0]
        output = episode.call("answer", answer=gold.split()[-1])
    assert output.reward == pytest.approx(2 / 3)
    figures = (output.metadata or {})["reward_extras"]
    assert {key: figures[key] for key in ("em", "precision", "recall")} == {
        "em": 0.0,
        "precision": 1.0,
        "recall": 0.5,
    }


def test_what_the_agent_reads_after_an_answer_does_not_tell_whether_it_was_right(anything):
    told = set()
    for answer in (anything["answer"][0], "nobody"):
        with play("qa", split="test", index=1) as episode:
            told.add(text_of(episode.call("answer", answer=answer)))
    assert len(told) == 1


def test_the_prompt_has_the_question_and_no_answer(anything):
    with play("qa", split="test", index=1) as episode:
        assert episode.prompt.startswith(f"{anything['question']}\n\n")
        assert not any(form in episode.prompt for form in anything["answer"])


def test_the_pages_of_an_article_are_its_text():
    town = next(iter(article for article in book("test").articles.values() if len(article.sentences) > 8))
    with play("qa", split="test", index=0) as episode:
        first = text_of(episode.call("read", title=town.title))
        count = int(re.search(r"\(page 1 of (\d+)\)", first)[1])
        pages = [text_of(episode.call("read", title=town.title, page=page + 1)) for page in range(count)]
        assert " ".join(page.partition("\n\n")[2] for page in pages) == town.text
        assert count == 3


def test_an_article_is_found_by_any_case_and_by_its_other_name():
    title = QuestionAnswering.get_task("test", 1)["evidence"][-1]
    alias = QuestionAnswering.get_task("test", 1)["answer"][1]
    with play("qa", split="test", index=1) as episode:
        shown = text_of(episode.call("read", title=title))
        assert text_of(episode.call("read", title=f"  {title.upper()} ")) == shown
        assert text_of(episode.call("read", title=alias)) == shown


def test_an_article_of_another_split_is_not_there():
    with play("qa", split="test", index=0) as episode:
        output = episode.call("read", title=QuestionAnswering.get_task("train", 0)["evidence"][0])
    assert "There is no article" in text_of(output)


MISTAKES = {
    "no such title": ("read", {"title": "Atlantis"}, "There is no article with the title 'Atlantis'."),
    "no such page": ("read", {"title": "", "page": 9}, "but no page 9."),
    "page zero": ("read", {"title": "", "page": 0}, "but no page 0."),
    "too many": ("search", {"query": "town", "limit": 11}, "from 1 to 10, got 11"),
    "none": ("search", {"query": "town", "limit": 0}, "from 1 to 10, got 0"),
    "long query": ("search", {"query": "town " * 50}, "The query has 250 characters"),
    "long answer": ("answer", {"answer": "yes " * 51}, "The answer has 204 characters"),
}


@pytest.mark.parametrize(("tool", "arguments", "told"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_told_costs_a_little_and_ends_nothing(tool, arguments, told, anything):
    given = (
        {**arguments, "title": arguments["title"] or anything["evidence"][0]} if tool == "read" else arguments
    )
    with play("qa", split="test", index=1) as episode:
        output = episode.call(tool, **given)
        assert told in text_of(output)
        assert not output.finished
        assert episode.summary.episode_return == pytest.approx(-0.02)
        episode.call("answer", answer=anything["answer"][0])
        assert episode.summary.episode_return == pytest.approx(0.98)


def test_a_call_that_cannot_be_understood_costs_more():
    with play("qa", split="test", index=1) as episode:
        episode.call("read", name="x")
        assert episode.summary.episode_return == pytest.approx(-0.05)


def test_after_twenty_steps_the_episode_is_over_and_nothing_is_paid():
    with play("qa", split="test", index=1) as episode:
        outputs = [episode.call("search", query="town") for _ in range(20)]
        assert [output.finished for output in outputs] == [False] * 19 + [True]
        assert (episode.summary.episode_return, str(episode.summary.stop_reason)) == (0.0, "step_limit")


def test_a_search_that_finds_nothing_says_so():
    with play("qa", split="test", index=0) as episode:
        assert text_of(episode.call("search", query="zzz")) == "No article contains any of these words."


def test_a_mistaken_title_brings_near_ones():
    title = QuestionAnswering.get_task("test", 0)["evidence"][0]
    with play("qa", split="test", index=0) as episode:
        assert f"Similar titles: {title}" in text_of(episode.call("read", title=f"{title} (novel)"))


# Both doors.


@pytest.fixture(scope="module")
def server(serve_live) -> str:
    return serve_live("qa").url


@pytest.mark.parametrize("index", range(len(FAMILIES)))
async def test_an_episode_is_played_through_the_standard_and_through_mcp_alike(server, index):
    task = QuestionAnswering.get_task("test", index)
    actions = QuestionAnswering.gold_actions(task)
    with anyio.fail_after(LIMIT):
        async with httpx2.AsyncClient(base_url=server, timeout=LIMIT) as http:
            order = {"environment": "qa", "split": "test", "index": index}
            paid = {"ors": await over_ors(http, order, actions), "mcp": await over_mcp(http, order, actions)}
    for door in paid.values():
        assert door == ["playing"] * (len(actions) - 1) + ["finished", 1.0]


async def over_ors(http: httpx2.AsyncClient, order: dict[str, Any], actions: Any) -> list[Any]:
    session = (await http.post("/_ors/sessions", json=order)).json()
    headers = {"X-Session-ID": session["session_id"]}
    phases: list[Any] = []
    for name, arguments in actions:
        answer = await http.post("/qa/call", json={"name": name, "input": arguments}, headers=headers)
        (end,) = (event for event in answer.text.split("\n\n") if event.startswith("event: end"))
        result = json.loads(end.partition("data: ")[2])
        assert result["ok"], result
        phases.append("finished" if result["output"]["finished"] else "playing")
    return [*phases, await total(http, session)]


async def over_mcp(http: httpx2.AsyncClient, order: dict[str, Any], actions: Any) -> list[Any]:
    session = (await http.post("/_ors/sessions", json=order)).json()
    phases: list[Any] = []
    async with (
        httpx2.AsyncClient(timeout=LIMIT) as own,
        Client(streamable_http_client(session["agent_url"], http_client=own)) as agent,
    ):
        assert [tool.name for tool in (await agent.list_tools()).tools] == ["search", "read", "answer"]
        for name, arguments in actions:
            result = await agent.call_tool(name, arguments)
            assert not result.is_error, result
            status = (await http.get(f"/_ors/sessions/{session['session_id']}")).json()
            phases.append(status["episode"]["phase"])
    return [*phases, await total(http, session)]


async def total(http: httpx2.AsyncClient, session: dict[str, Any]) -> float:
    path = f"/_ors/sessions/{session['session_id']}"
    episode_return = (await http.get(path)).json()["episode"]["return"]
    await http.delete(path)
    return episode_return
