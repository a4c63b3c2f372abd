"""Every reward says what it is, what it takes, where it comes from and how it can be cheated."""

import pytest

from ors_server.rewards.catalogue import list_rewards

ENTRIES = list(list_rewards())


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_an_entry_is_complete(entry):
    assert entry.summary.endswith(".")
    assert entry.range is not None
    assert entry.range[0] < entry.range[1]
    assert entry.fields
    assert entry.hazards.endswith((".", "…")), "the documentation needs a paragraph that begins with Hazards:"
    assert entry.source.endswith((".", ")")), "the documentation, or its module's, needs one with Source:"
    assert "\n" not in entry.hazards + entry.source + entry.summary


def test_names_are_unique_and_stand_where_they_say():
    names = [entry.name for entry in ENTRIES]
    assert len(set(names)) == len(names)
    assert all(entry.place.endswith(f":{entry.name}") for entry in ENTRIES)


def test_a_class_is_described_by_its_own_documentation():
    (learned,) = [entry for entry in ENTRIES if entry.name == "LearnedReward"]
    assert learned.fields == ("trajectory",)
    assert "rated" in learned.summary
