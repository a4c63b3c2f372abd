"""What `ors_server.testing.ors_checks_sessions` finds on our server, requirement by requirement."""

import pytest


@pytest.mark.requirement("E20")
def test_creates_a_session_id(demand):
    demand()


@pytest.mark.requirement("E21")
def test_answers_json_to_those_who_accept_json_alone(demand):
    demand()


@pytest.mark.requirement("E22")
def test_takes_an_id_that_the_client_made(demand):
    demand()


@pytest.mark.requirement("E23")
def test_takes_the_default_environment_for_granted(demand):
    demand()


@pytest.mark.requirement("E24")
def test_wants_a_session_id(demand):
    demand()


@pytest.mark.requirement("E25")
def test_wants_one_source_of_the_task(demand):
    demand()


@pytest.mark.requirement("E26")
def test_does_not_create_in_an_unknown_environment(demand):
    demand()


@pytest.mark.requirement("E27")
def test_creates_a_session_once(demand):
    demand()


@pytest.mark.requirement("E27b")
def test_lets_one_of_many_creations_win(demand):
    demand()


@pytest.mark.requirement("E28")
def test_takes_secrets_from_the_header(demand):
    demand()


@pytest.mark.requirement("E28b")
def test_refuses_malformed_secrets(demand):
    demand()


@pytest.mark.requirement("E29")
def test_takes_secrets_from_the_body(demand):
    demand()


@pytest.mark.requirement("E30")
def test_refuses_an_unknown_toolset(demand):
    demand()


@pytest.mark.requirement("E32")
def test_answers_during_setup(demand):
    demand()


@pytest.mark.requirement("E33")
def test_prompts_with_blocks(demand):
    demand()


@pytest.mark.requirement("E34")
def test_adds_the_tools_of_the_task(demand):
    demand()


@pytest.mark.requirement("E36")
def test_knows_no_deleted_session(demand):
    demand()


@pytest.mark.requirement("E37")
def test_says_why_setup_failed(demand):
    demand()


@pytest.mark.requirement("E38")
def test_deletes_twice(demand):
    demand()


@pytest.mark.requirement("E39")
def test_answers_delete_session(demand):
    demand()


@pytest.mark.requirement("E39b")
def test_ends_the_session_in_delete_session(demand):
    demand()


@pytest.mark.requirement("E41")
def test_tears_down_once(demand):
    demand()


@pytest.mark.requirement("E42")
def test_does_not_tear_down_under_a_call(demand):
    demand()


@pytest.mark.requirement("A14")
def test_tells_a_conversation(demand):
    demand()
