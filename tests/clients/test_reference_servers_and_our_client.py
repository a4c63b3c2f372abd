"""Our client plays the servers of the `openreward` and `ors-sdk` packages, and ours, in the same words."""

import pytest

from ors_server.client import Client
from ors_server.model import errors


@pytest.fixture(scope="module", params=["openreward", "ors_sdk", "ours"])
def served(request, reference_server, server_url):
    if request.param == "ours":
        return request.param, server_url
    return request.param, reference_server(request.param)


@pytest.fixture(scope="module")
def client(served):
    with Client(served[1]) as opened:
        yield opened


def test_it_asks_what_is_served(client):
    assert client.environments()[:2] == ["refenv", "secondenv"]
    assert [(split.name, split.type) for split in client.splits("refenv")] == [
        ("train", "train"),
        ("test", "test"),
        ("extra", "validation"),
    ]
    assert client.num_tasks("train") == 4
    assert client.task("train", 1)["target"] == "world"
    assert [task["target"] for task in client.tasks("train", 1, 3)] == ["world", "trl"]
    assert "echo" in {tool.name for tool in client.tools("refenv").tools}


def test_it_plays_an_episode_and_checks_it_where_the_server_can(client, served):
    with client.episode("refenv", split="train", index=0) as episode:
        assert "hello" in episode.prompt()
        assert [message.role for message in episode.messages()] == ["user"]
        assert {"echo", "hint"} <= {tool.name for tool in episode.tools().tools}
        wrong = episode.call("echo", {"text": "no"})
        assert (wrong.reward, wrong.finished) == (0.0, False)
        refused = episode.call("nosuch")
        assert (refused.refusal, refused.is_error) == ("not_found", True)
        assert episode.call("add", {"a": "x"}).refusal == "input_validation"
        won = episode.call("echo", {"text": "hello"})
        assert (won.reward, won.finished, episode.ledger.total) == (1.0, True, 1.0)
        if served[0] == "ours":
            assert episode.check().episode_return == 1.0
        else:
            with pytest.raises(errors.NotSupportedError, match="no summary"):
                episode.check()


def test_a_task_by_value_reaches_the_environment_that_is_named(client):
    with client.episode("secondenv", task_spec={"id": "brought", "target": "mine"}) as episode:
        assert episode.environment == "secondenv"
        assert episode.prompt()


def test_secrets_reach_the_environment(client):
    with client.episode("refenv", split="train", index=0, secrets={"K": "v"}) as episode:
        assert '"K": "v"' in episode.call("whoami").text


def test_spaces_and_length_survive(client, served):
    with client.episode("refenv", split="train", index=0) as episode:
        assert len(episode.call("big", {"n": 20_000, "lead": 3}).text) >= 20_000
        assert episode.call("spaces", {"n": 9_000, "lead": 3}).text.count(" ") == 9_000


def test_a_fault_of_the_environment_is_raised(client):
    with client.episode("refenv", split="train", index=0) as episode:
        with pytest.raises(errors.ToolFailedError, match="kaboom"):
            episode.call("boom")
        assert episode.call("count").text


def test_a_session_that_is_gone_is_said_to_be_gone(client):
    with client.episode("refenv", split="train", index=0) as episode:
        pass
    with pytest.raises(errors.SessionNotFoundError):
        episode.prompt()


def test_a_connection_that_breaks_in_the_middle_of_a_call_costs_nothing(served, cutting_proxy):
    proxy = cutting_proxy(served[1], b"slow_count")
    with Client(proxy.url) as client, client.episode("refenv", split="train", index=0) as episode:
        result = episode.call("slow_count", {"seconds": 2.0})
        assert (result.text, result.reward) == ("1", 0.5)
    assert proxy.cuts == 1
