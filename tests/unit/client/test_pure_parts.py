"""What needs no server: events, orders, errors and outputs read from their bytes."""

import base64
import json

import pytest

from ors_server import client
from ors_server.client import event_reader
from ors_server.client.bounded_http import MAX_PROBLEM_BYTES
from ors_server.client.call_result import read_blocks, read_known, read_output, refused, step_of, text_of
from ors_server.client.client_errors import BY_CODE, BrokenAnswerError, error_from, named_error
from ors_server.client.episode_request import check_request, control_body, secrets_header, standard_body
from ors_server.client.event_reader import MAX_LINE, EventReader, ServerSentEvent
from ors_server.client.session_summary import Summary
from ors_server.model import errors
from ors_server.model.errors import Blame, InvalidRequestError, NotSupportedError, OrsServerError
from ors_server.model.wire import ImageBlock, Split, TextBlock, ToolOutput


def read(*pieces):
    reader = EventReader()
    return [event for piece in pieces for event in reader.feed(piece)]


def test_events_are_read_whatever_the_line_ends_and_the_cuts_and_as_the_standard_says():
    stream = b": ping\r\n\r\nevent: task_id\r\ndata: abc\r\n\r\nevent:end\ndata:{}\nid: 7\nretry: 5\nodd\n\n"
    whole = [ServerSentEvent("task_id", "abc"), ServerSentEvent("end", "{}")]
    assert read(stream) == whole
    assert read(*(stream[at : at + 1] for at in range(len(stream)))) == whole
    assert read(b"event: chunk\ndata:   two spaces\n\n") == [ServerSentEvent("chunk", "  two spaces")]
    assert read(b"data: a\n:\ndata: b\n\n") == [ServerSentEvent("message", "a\nb")]
    assert read(b"event: end\ndata: {}\n") == []


def test_a_line_without_an_end_is_given_up():
    reader = EventReader()
    with pytest.raises(BrokenAnswerError, match="bytes"):
        list(reader.feed(b"x" * (MAX_LINE + 1)))


def test_a_long_line_counts_as_a_whole_in_however_many_pieces_it_comes(monkeypatch):
    monkeypatch.setattr(event_reader, "MAX_LINE", 10)
    reader = EventReader()
    assert list(reader.feed(b"data: 1\ndata:")) == []
    assert list(reader.feed(b" 2345")) == []
    assert list(reader.feed(b"\n\ndata: 67")) == [ServerSentEvent("message", "1\n2345")]
    with pytest.raises(BrokenAnswerError, match="10 bytes"):
        list(reader.feed(b"890"))


@pytest.mark.parametrize(
    "wishes",
    [
        {},
        {"split": "train"},
        {"index": 0},
        {"task_spec": {}, "split": "train", "index": 0},
        {"task_spec": {}, "index": 0},
    ],
    ids=["nothing", "no index", "no split", "both", "both by half"],
)
def test_a_task_is_named_once(wishes):
    with pytest.raises(InvalidRequestError, match="either task_spec, or both split and index"):
        check_request(wishes)


def test_a_task_is_named_by_value_or_by_place_and_an_order_says_nothing_else():
    check_request({"task_spec": {}})
    check_request({"split": "train", "index": 0, "seed": 1})
    wishes = {"split": "train", "index": 0, "seed": 0, "labels": None}
    assert control_body(None, wishes, "id") == {"split": "train", "index": 0, "seed": 0, "session_id": "id"}


def test_the_standard_has_no_words_for_some_wishes():
    with pytest.raises(NotSupportedError, match="seed, policy"):
        standard_body("e", {"task_spec": {}, "seed": 1, "policy": {}}, with_secrets=False)
    assert standard_body("e", {"task_spec": {}, "secrets": {"K": "v"}}, with_secrets=False) == {
        "env_name": "e",
        "task_spec": {},
    }
    assert standard_body("e", {"task_spec": {}, "secrets": {"K": "v"}}, with_secrets=True)["secrets"] == {
        "K": "v"
    }


def test_secrets_travel_in_a_header():
    assert secrets_header(None) == {}
    header = secrets_header({"K": "v"})["X-Secrets"]
    assert json.loads(base64.b64decode(header)) == {"K": {"value": "v"}}


@pytest.mark.parametrize("code", sorted(BY_CODE))
def test_every_error_of_the_server_comes_back_as_its_own_class(code):
    error = error_from({"detail": "why", "code": code, "blame": "client"}, 400)
    assert type(error) is BY_CODE[code]
    assert str(error) == "why"


@pytest.mark.parametrize("blame", Blame)
def test_a_code_of_a_newer_server_is_read_by_whom_it_blames(blame):
    assert named_error("from_the_future", blame.value, "why").blame is blame


@pytest.mark.parametrize(
    ("status", "cls"),
    [
        (400, errors.ClientError),
        (401, errors.UnauthenticatedError),
        (404, errors.SessionNotFoundError),
        (410, errors.SessionDeletedError),
        (429, errors.CapacityError),
        (500, errors.AuthorError),
        (503, errors.MachineryError),
        (599, errors.MachineryError),
        (308, BrokenAnswerError),
    ],
)
def test_a_server_that_names_no_code_is_read_by_its_status(status, cls):
    assert type(error_from({"detail": "why"}, status)) is cls
    assert str(error_from("", status)) == f"HTTP status {status}"
    for silent in ({}, {"detail": None}, {"detail": ""}, {"detail": [" "]}):
        assert str(error_from(silent, status)) == f"HTTP status {status}"


@pytest.mark.parametrize("status", [400, 404, 500])
def test_an_error_that_was_cut_is_the_servers_fault(status):
    assert type(error_from("[" * 1_000, status)) is not BrokenAnswerError
    error = error_from("[" * MAX_PROBLEM_BYTES, status)
    assert type(error) is BrokenAnswerError
    assert len(str(error)) < 1_000


def test_the_problems_of_a_body_are_told_and_what_a_newer_standard_adds_is_left_out():
    rows = [{"msg": "Field required", "loc": ["split"]}, "odd"]
    assert str(error_from({"detail": rows}, 422)) == "Field required; odd"
    output = read_output(
        {
            "blocks": [{"type": "text", "text": "a", "new": 1}, {"type": "hologram"}, TextBlock(text="b")],
            "reward": 0.5,
            "finished": True,
            "metadata": None,
            "mood": "good",
        }
    )
    assert (text_of(output.blocks), output.reward, output.finished) == ("a\nb", 0.5, True)


@pytest.mark.parametrize(
    "given",
    [None, [], {"blocks": "text"}, {"blocks": [], "reward": "much"}, {"blocks": [{"type": "image"}]}],
    ids=["nothing", "a list", "blocks of text", "a reward of words", "an image without data"],
)
def test_what_is_no_output_is_said_to_be_none(given):
    with pytest.raises(BrokenAnswerError):
        read_output(given)


def test_a_body_of_another_kind_is_said_to_be_none():
    with pytest.raises(BrokenAnswerError, match="expected a Split as a JSON object"):
        read_known(Split, "train")
    assert read_blocks([{"type": "image", "data": "x", "mimeType": "image/png"}]) == [
        ImageBlock(data="x", mimeType="image/png")
    ]


@pytest.mark.parametrize(
    ("error", "reason", "refusal"),
    [
        ("'x' is not a valid tool", None, "not_found"),
        ("Tool input validation error: []", None, "input_validation"),
        ("Tool name collision", None, "name_collision"),
        ("over", "episode_finished", "episode_finished"),
    ],
)
def test_a_refusal_has_a_reason_also_where_the_server_gives_words_only(error, reason, refusal):
    result = refused("c", "t", error, reason)
    assert (result.refusal, result.text, result.reward) == (refusal, error, None)
    assert result.finished is (refusal == "episode_finished")
    assert result.is_error


def test_the_number_of_a_step_is_in_the_standing():
    assert step_of(ToolOutput(metadata={"episode": {"step": 3}})) == 3
    assert step_of(ToolOutput(metadata={"episode": "fake"})) is None
    assert step_of(ToolOutput()) is None


def test_an_error_without_blame_is_nobodys_and_unreadable_figures_are_a_broken_answer():
    assert named_error(None, None, "x") is None
    assert OrsServerError("x").blame is Blame.US
    with pytest.raises(BrokenAnswerError, match="figures of the episode cannot be read"):
        Summary.of({"session_id": "s", "environment": "e", "episode": {"phase": "ready", "steps": "many"}})


def test_the_old_name_of_a_request_leads_to_the_new_one():
    with pytest.warns(DeprecationWarning, match="Wishes is deprecated, use ors_server.client.EpisodeRequest"):
        assert client.Wishes is client.EpisodeRequest
