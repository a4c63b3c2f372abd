"""What `ors_server.testing.ors_checks_streams` finds on our server, requirement by requirement."""

import pytest


@pytest.mark.requirement("E50")
def test_begins_with_the_task_id(demand):
    demand()


@pytest.mark.requirement("E51")
def test_tells_the_task_id_at_once(demand):
    demand()


@pytest.mark.requirement("E51b")
def test_tells_the_task_id_during_setup(demand):
    demand()


@pytest.mark.requirement("E52")
def test_ends_once(demand):
    demand()


@pytest.mark.requirement("E53")
def test_writes_all_four_keys(demand):
    demand()


@pytest.mark.requirement("E54")
def test_writes_short_lines(demand):
    demand()


@pytest.mark.requirement("E55")
def test_writes_whole_lines(demand):
    demand()


@pytest.mark.requirement("E56")
def test_begins_no_piece_with_white_space(demand):
    demand()


@pytest.mark.requirement("E57")
def test_breaks_the_silence(demand):
    demand()


@pytest.mark.requirement("E58")
def test_never_just_stops(demand):
    demand()


@pytest.mark.requirement("E59")
def test_streams_without_delay(demand):
    demand()
