"""What `ors_server.testing.ors_checks_calls` finds on our server, requirement by requirement."""

import pytest


@pytest.mark.requirement("E60")
def test_survives_a_raising_tool(demand):
    demand()


@pytest.mark.requirement("E60b")
def test_never_says_nothing(demand):
    demand()


@pytest.mark.requirement("E61")
def test_refuses_in_the_words_that_clients_match(demand):
    demand()


@pytest.mark.requirement("E61b")
def test_says_why_it_refuses(demand):
    demand()


@pytest.mark.requirement("E61c")
def test_refuses_a_malformed_call(demand):
    demand()


@pytest.mark.requirement("E62")
def test_resumes_a_dropped_call(demand):
    demand()


@pytest.mark.requirement("E63")
def test_knows_its_own_ids(demand):
    demand()


@pytest.mark.requirement("E64")
def test_keeps_ids_to_their_session(demand):
    demand()


@pytest.mark.requirement("E65")
def test_takes_null_for_absent(demand):
    demand()


@pytest.mark.requirement("E66")
def test_takes_a_made_up_id_as_the_calls_name(demand):
    demand()


@pytest.mark.requirement("E67")
def test_answers_parallel_calls(demand):
    demand()


@pytest.mark.requirement("E68")
def test_refuses_calls_after_the_end(demand):
    demand()


@pytest.mark.requirement("E69")
def test_never_denies_that_a_call_ran(demand):
    demand()


@pytest.mark.requirement("E70")
def test_stalls_nobody(demand):
    demand()


@pytest.mark.requirement("E71")
def test_follows_the_session_not_the_path(demand):
    demand()


@pytest.mark.requirement("E72")
def test_never_writes_nan(demand):
    demand()


@pytest.mark.requirement("E72b")
def test_refuses_a_reward_that_is_no_number(demand):
    demand()


@pytest.mark.requirement("E73")
def test_forgets_a_call_that_was_not_begun(demand):
    demand()


@pytest.mark.requirement("E74")
def test_wants_a_key(demand):
    demand()


@pytest.mark.requirement("E77")
def test_tells_its_version(demand):
    demand()


@pytest.mark.requirement("E78")
def test_refuses_a_body_that_is_too_large(demand):
    demand()


@pytest.mark.requirement("E79")
def test_survives_a_tool_that_ends_the_world(demand):
    demand()


@pytest.mark.requirement("A17")
def test_scores_a_group(demand):
    demand()
