"""Where a record may be, and that its password is never shown."""

from pathlib import Path

import pytest

from ors_server.errors import SettingsError
from ors_server.settings import Settings
from ors_server.store.place import PlaceKind, find_place

SECRET = "s3cr3t:@word"


@pytest.mark.parametrize(
    ("where", "kind", "shown"),
    [
        ("memory", PlaceKind.MEMORY, "memory"),
        ("/data/a b.db", PlaceKind.SQLITE, "/data/a b.db"),
        (" /data/x.db ", PlaceKind.SQLITE, "/data/x.db"),
        ("sqlite:////data/x.db", PlaceKind.SQLITE, "/data/x.db"),
        ("postgresql://host/db", PlaceKind.POSTGRES, "postgresql://host/db"),
        ("postgres://me@host:5433/db", PlaceKind.POSTGRES, "postgresql://me@host:5433/db"),
        ("postgresql+psycopg://me:pw@host/db", PlaceKind.POSTGRES, "postgresql://me:***@host/db"),
        (
            "postgresql:///db?host=/run&password=pw&user=me",
            PlaceKind.POSTGRES,
            "postgresql:///db?host=/run&password=***&user=me",
        ),
    ],
)
def test_a_place_is_understood_and_shown_without_its_password(where, kind, shown):
    place = find_place(where)
    assert (place.kind, place.shown, repr(place)) == (kind, shown, f"Place({shown!r})")


def test_a_relative_path_stands_for_a_file_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/me")
    assert find_place("runs/x.db").path == tmp_path / "runs" / "x.db"
    assert find_place("sqlite:///x.db").path == tmp_path / "x.db"
    assert find_place("~/x.db").path == Path("/home/me/x.db")


@pytest.mark.parametrize("where", ["mysql://host/db", "http://host", "sqlite:///", "  "])
def test_another_place_is_refused(where):
    with pytest.raises(SettingsError, match=r"record|memory"):
        find_place(where)


def test_the_record_is_in_the_users_data_folder_unless_told_otherwise(monkeypatch):
    monkeypatch.delenv("ORS_STORE")
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert Settings().record == "/data/ors-server/episodes.db"
    monkeypatch.setenv("XDG_DATA_HOME", "not/absolute")
    monkeypatch.setenv("HOME", "/home/me")
    assert Settings().record == "/home/me/.local/share/ors-server/episodes.db"
    monkeypatch.setenv("ORS_STORE", f"postgresql://me:{SECRET}@host/db")
    assert Settings().record == f"postgresql://me:{SECRET}@host/db"


def test_settings_never_show_the_password():
    settings = Settings(store=f"postgresql://me:{SECRET}@host/db")
    for shown in (repr(settings), str(settings), settings.model_dump_json()):
        assert SECRET not in shown
    assert SECRET not in find_place(settings.record).shown
    assert "@host/db" in find_place(settings.record).shown
