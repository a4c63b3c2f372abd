"""Every door and the client have each field with which a session can be requested."""

from dataclasses import fields

from ors_server.client.episode_request import EpisodeRequest
from ors_server.doors.control.models import SessionBody
from ors_server.doors.mcp.extension import CreateParams
from ors_server.sessions.session_request import SessionRequest

BY_CALLERS = {item.name for item in fields(SessionRequest)} - {"credential_id"}


def test_the_bodies_of_the_doors_have_all_fields_of_a_request():
    assert set(SessionBody.model_fields) == BY_CALLERS
    assert set(CreateParams.model_fields) - {"meta"} == BY_CALLERS


def test_the_client_requests_all_but_the_turns_of_a_replay():
    assert set(EpisodeRequest.__annotations__) == BY_CALLERS - {"environment", "user_turns"}


def test_a_field_that_is_left_out_has_the_requests_default():
    request = SessionBody(split="test", index=3).as_request()
    assert request == SessionRequest(split="test", index=3)
    assert CreateParams(split="test", index=3).as_request() == request
