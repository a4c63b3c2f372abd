"""What `ors_server.testing.ors_checks_discovery` finds on our server, requirement by requirement."""

import pytest


@pytest.mark.requirement("E1")
def test_tells_its_health(demand):
    demand()


@pytest.mark.requirement("E2")
def test_lists_its_environments(demand):
    demand()


@pytest.mark.requirement("E3")
def test_describes_its_tools(demand):
    demand()


@pytest.mark.requirement("E4")
def test_ignores_the_case_of_a_name(demand):
    demand()


@pytest.mark.requirement("E5")
def test_describes_its_splits(demand):
    demand()


@pytest.mark.requirement("E6")
def test_lists_tasks(demand):
    demand()


@pytest.mark.requirement("E7")
def test_says_that_tasks_cannot_be_listed(demand):
    demand()


@pytest.mark.requirement("E8")
def test_counts_tasks(demand):
    demand()


@pytest.mark.requirement("E9")
def test_tells_one_task(demand):
    demand()


@pytest.mark.requirement("E10")
def test_refuses_an_index_past_the_end(demand):
    demand()


@pytest.mark.requirement("E10b")
def test_counts_a_negative_index_from_the_end(demand):
    demand()


@pytest.mark.requirement("E11")
def test_slices_tasks(demand):
    demand()


@pytest.mark.requirement("E12")
def test_refuses_an_unknown_split(demand):
    demand()


@pytest.mark.requirement("E13")
def test_reaches_the_default_environment_by_bare_paths(demand):
    demand()


@pytest.mark.requirement("E13b")
def test_answers_bare_paths_directly(demand):
    demand()


@pytest.mark.requirement("E13c")
def test_routes_bare_paths_by_deployment(demand):
    demand()


@pytest.mark.requirement("E14")
def test_refuses_malformed_bodies(demand):
    demand()


@pytest.mark.requirement("E15")
def test_says_application_json(demand):
    demand()


@pytest.mark.requirement("E16")
def test_has_the_names_of_the_specification(demand):
    demand()


@pytest.mark.requirement("E17")
def test_does_not_know_an_unknown_environment(demand):
    demand()


@pytest.mark.requirement("E18")
def test_ignores_a_session_in_discovery(demand):
    demand()


@pytest.mark.requirement("A4")
def test_describes_a_terminal_tool(demand):
    demand()
