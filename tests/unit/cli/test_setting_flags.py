"""The flags of `ors-server serve`, which are made from the settings."""

from dataclasses import fields

import pytest

from ors_server.cli.data_options import DataOptions
from ors_server.cli.serve_command import ServeOptions, serve, settings_of
from ors_server.cli.setting_flags import options_with_flags, with_flags
from ors_server.files.attribute_docs import attribute_docs
from ors_server.model.errors import SettingsError
from ors_server.model.settings import Settings, load_settings

NO_FLAG = {"api_keys", "token_secret", "environments", "host_folder"}
"""Secrets, which everybody on the machine could read on a command line; what the arguments name; and what a
server tells its hosts."""
REFENV = "tests/fixtures/refenv.py"


def test_every_setting_is_a_flag_unless_it_is_a_secret_or_an_argument():
    flags = {option.name for option in with_flags(serve, ServeOptions).params}
    own = {field.name for field in fields(ServeOptions)}
    data = {field.name for field in fields(DataOptions)}
    assert own == {"references", "stdio", "episode", "config", "json", "reload", "help_all", *data}
    assert flags - own == set(Settings.model_fields) - NO_FLAG


def test_flags_that_are_not_given_leave_settings_alone():
    given = options_with_flags(ServeOptions)
    assert settings_of(given()) == {}
    assert settings_of(given(port="0", allowed_hosts=["a"])) == {"port": "0", "allowed_hosts": ["a"]}


def test_every_flag_has_the_meaning_and_the_default_of_its_setting():
    shown = {option.name: option for option in with_flags(serve, ServeOptions).params}
    for name in set(Settings.model_fields) - NO_FLAG:
        assert shown[name].help.startswith(" ".join(attribute_docs(Settings)[name].split()))
        assert shown[name].opts == [f"--{name.replace('_', '-')}"]


@pytest.mark.parametrize(
    ("flag", "value", "complaint"),
    [
        ("--port", "high", "expected a valid integer, got 'high'"),
        ("--port", "99999", "expected a number less than or equal to 65535, got '99999'"),
        ("--idle-seconds", "0", "expected a number greater than 0, got '0'"),
        ("--log-level", "loud", "expected 'debug', 'info', 'warning' or 'error', got 'loud'"),
        ("--visibility", "some", "expected 'negotiated', 'meta', 'visible' or 'hidden', got 'some'"),
    ],
)
def test_a_wrong_value_is_refused_with_its_flag_and_what_was_expected(run, flag, value, complaint):
    assert run("serve", REFENV, flag, value).err == f"ors-server: {flag}: {complaint}\n"


def test_a_value_that_may_hold_a_password_is_not_repeated():
    with pytest.raises(SettingsError) as caught:
        load_settings(store=["postgresql://me:secret@host/db"])
    assert "--store: " in str(caught.value)
    assert "secret" not in str(caught.value)


def test_the_defaults_in_the_help_are_the_settings_own():
    shown = {option.name: option.show_default for option in with_flags(serve, ServeOptions).params}
    for name in set(Settings.model_fields) - NO_FLAG:
        value = Settings.model_fields[name].get_default(call_default_factory=True)
        written = f"{value:g}" if isinstance(value, float) else str(getattr(value, "value", value))
        assert shown[name] == (False if value in (None, False, []) else written)


def test_the_short_help_has_the_common_flags_in_groups_on_one_screen(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    shown = run("serve", "--help").out
    assert len(shown.splitlines()) <= 45
    assert [panel for panel in ("Options", "Data files", "Server") if f"─ {panel} ─" in shown] == [
        "Options",
        "Data files",
        "Server",
    ]
    for flag in ("--host", "--port", "--api-keys-file", "--sandbox", "--store", "--prompt", "--help-all"):
        assert f"│ {flag} " in shown
    assert "--max-body-bytes" not in shown


def test_the_whole_help_has_every_flag(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    ran = run("serve", "--help-all")
    assert ran.status == 0
    flags = {option.opts[0] for option in with_flags(serve, ServeOptions).params if option.opts[0][0] == "-"}
    assert all(f"│ {flag} " in ran.out for flag in flags)


def test_flags_that_the_short_help_hides_are_still_taken(run):
    assert "--max-body-bytes: " in run("serve", REFENV, "--max-body-bytes", "1").err
