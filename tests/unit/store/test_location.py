"""Where an episode store may be, and that its password is never shown."""

from pathlib import Path

import pytest

from ors_server.model.errors import SettingsError
from ors_server.model.settings import Settings
from ors_server.store.location import StoreKind, parse_location

SECRET = "s3cr3t:@word"


@pytest.mark.parametrize(
    ("where", "kind", "shown"),
    [
        ("memory", StoreKind.MEMORY, "memory"),
        ("/data/a b.db", StoreKind.SQLITE, "/data/a b.db"),
        (" /data/x.db ", StoreKind.SQLITE, "/data/x.db"),
        ("sqlite:////data/x.db", StoreKind.SQLITE, "/data/x.db"),
        ("postgresql://host/db", StoreKind.POSTGRES, "postgresql://host/db"),
        ("postgres://me@host:5433/db", StoreKind.POSTGRES, "postgresql://me@host:5433/db"),
        ("postgresql+psycopg://me:pw@host/db", StoreKind.POSTGRES, "postgresql://me:***@host/db"),
        (
            "postgresql:///db?host=/run&password=pw&user=me",
            StoreKind.POSTGRES,
            "postgresql:///db?host=/run&password=***&user=me",
        ),
    ],
)
def test_a_location_is_parsed_and_shown_without_its_password(where, kind, shown):
    location = parse_location(where)
    assert (location.kind, location.display_name) == (kind, shown)
    assert repr(location) == f"StoreLocation({shown!r})"


def test_a_relative_path_stands_for_a_file_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/me")
    assert parse_location("runs/x.db").path == tmp_path / "runs" / "x.db"
    assert parse_location("sqlite:///x.db").path == tmp_path / "x.db"
    assert parse_location("~/x.db").path == Path("/home/me/x.db")


@pytest.mark.parametrize("where", ["mysql://host/db", "http://host", "sqlite:///", "  "])
def test_another_location_is_refused(where):
    with pytest.raises(SettingsError, match=r"record|memory"):
        parse_location(where)


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
    assert SECRET not in parse_location(settings.record).display_name
    assert "@host/db" in parse_location(settings.record).display_name
