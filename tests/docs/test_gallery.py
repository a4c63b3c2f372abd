"""The gallery page follows from its figures and the sources, and has every environment."""

from ors_server.environments.sources import load_source, source_names
from tests.script_modules import load_script

gallery = load_script("gallery")


def test_the_page_follows_from_the_figures():
    assert gallery.PAGE.read_text() == gallery.page(gallery.read_data()), "run scripts/gallery.py"


def test_the_page_has_every_environment_and_every_reason():
    text = gallery.PAGE.read_text()
    for name in source_names():
        source = load_source(name)
        assert (source.install or f"[{source.extra_name}]") in text
        for each in source.list_names():
            assert f"| `{name}/{each}` |" in text
        for each, reason in source.broken.items():
            assert f"- `{name}/{each}`: {reason}." in text


def test_figures_of_known_environments_only_and_none_is_proved_by_a_broken_one():
    data = gallery.read_data()
    names = {f"{name}/{each}" for name in source_names() for each in load_source(name).list_names()}
    assert set(data) <= names
    source = load_source("reasoning_gym")
    for each in source.list_names():
        row = data[f"reasoning_gym/{each}"]
        if each not in source.broken:
            assert row["oracle"] == 1
            assert row["noop"] <= 0.06
