"""Who is calling: keys, agent tokens, roles, and nothing of a key in any message."""

import base64
import hashlib

import pytest

from ors_server.doors.access import (
    TOKEN_PREFIX,
    Caller,
    Keyring,
    Role,
    credential_from,
    load_keyring,
    parse_keys,
    read_key_file,
)
from ors_server.model.errors import ForbiddenError, SettingsError, UnauthenticatedError

KEY = "a-key-of-20-letters!"
OTHER = "another-key-of-25-letters"


@pytest.fixture
def keyring():
    return Keyring(parse_keys(f"trainer:t1:{KEY}, admin:a1:{OTHER},"), token_secret=b"secret")


@pytest.mark.parametrize("credential", [None, "", "anything", KEY])
def test_without_keys_everybody_is_a_trainer(credential):
    caller = Keyring().identify(credential)
    assert (caller.role, caller.credential_id) == (Role.TRAINER, None)
    assert Keyring().is_open


def test_a_known_key_has_its_role_and_id(keyring):
    assert not keyring.is_open
    assert keyring.identify(KEY) == Caller(Role.TRAINER, "t1")
    assert keyring.identify(OTHER) == Caller(Role.ADMIN, "a1")


@pytest.mark.parametrize("credential", [None, "", "wrong", KEY[:-1], KEY + "x", "clé"])
def test_an_unknown_key_is_nobody(keyring, credential):
    what = "no API key was sent: " if credential is None else "the API key is unknown: "
    with pytest.raises(UnauthenticatedError, match=f"^{what}send a known API key as X-API-Key"):
        keyring.identify(credential)


@pytest.mark.parametrize("session_id", ["plain", "with space/и.dots", "x" * 300, "a.b.c", "="])
def test_a_minted_token_leads_back_to_its_session(keyring, session_id):
    token = keyring.mint(session_id, "e1")
    assert token == keyring.mint(session_id, "e1")
    assert token.startswith(TOKEN_PREFIX)
    assert all(letter.isalnum() or letter in "-_." for letter in token), "it goes into a URL"
    for caller in (keyring.identify(token), keyring.identify_agent(token)):
        assert (caller.role, caller.session_id, caller.episode_id) == (Role.AGENT, session_id, "e1")


def forged(keyring):
    session = base64.urlsafe_b64encode(b"e1 other").decode().rstrip("=")
    _, _, signature = keyring.mint("mine", "e1").rpartition(".")
    return f"{TOKEN_PREFIX}{session}.{signature}"


@pytest.mark.parametrize(
    "token",
    [
        TOKEN_PREFIX,
        f"{TOKEN_PREFIX}x",
        f"{TOKEN_PREFIX}.",
        f"{TOKEN_PREFIX}bWluZQ.",
        f"{TOKEN_PREFIX}bWluZQ.é",
        "agt_!!!!.x",
        "agt__w.x",
    ],
)
def test_a_malformed_token_is_nobodys(keyring, token):
    for ring in (keyring, Keyring()):
        with pytest.raises(UnauthenticatedError):
            ring.identify(token)


def test_a_token_cannot_be_carried_over_to_another_session_or_server(keyring):
    with pytest.raises(UnauthenticatedError, match="unknown agent token"):
        keyring.identify(forged(keyring))
    with pytest.raises(UnauthenticatedError):
        Keyring().identify(keyring.mint("mine", "e1"))
    same_secret = load_keyring(keys=None, key_file=None, token_secret="secret")
    assert same_secret.identify(keyring.mint("mine", "e1")).session_id == "mine"


def test_a_role_may_do_everything_that_a_lower_one_may():
    for role in Role:
        for needed in Role:
            if role >= needed:
                Caller(role).require(needed)
            else:
                with pytest.raises(ForbiddenError, match=needed.name.lower()):
                    Caller(role).require(needed)


def test_an_agent_reaches_its_own_session_only_and_no_later_episode_of_its_id():
    agent = Caller(Role.AGENT, "agent:mine", "mine", "e1")
    agent.require_session("mine", "e1")
    agent.require_session("mine", None)
    for episode in ("e1", None):
        with pytest.raises(ForbiddenError):
            agent.require_session("other", episode)
        with pytest.raises(ForbiddenError):
            Caller(Role.AGENT).require_session("mine", episode)
    Caller(Role.TRAINER).require_session("any", "e1")
    with pytest.raises(ForbiddenError, match="earlier episode"):
        agent.require_session("mine", "e2")


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"x-api-key": " key "}, "key"),
        ({"authorization": "Bearer key"}, "key"),
        ({"authorization": "bearer  key "}, "key"),
        ({"authorization": "Basic key"}, None),
        ({"authorization": "Bearer"}, None),
        ({"authorization": "Bearer "}, None),
        ({"x-api-key": "", "authorization": "Bearer key"}, "key"),
        ({"x-api-key": "one", "authorization": "Bearer two"}, "one"),
    ],
    ids=str,
)
def test_a_credential_is_found_in_either_header(headers, expected):
    assert credential_from(headers) == expected


@pytest.mark.parametrize(
    "text",
    [
        "sup3r-s3cr3t-k3y-value",
        "trainer:sup3r-s3cr3t-k3y-value",
        "sup3r-s3cr3t-k3y-value:id:0123456789abcdef",
        "trainer::sup3r-s3cr3t-k3y-value",
        "trainer:id:short",
        "boss:id:sup3r-s3cr3t-k3y-value",
    ],
)
def test_a_wrong_entry_is_refused_without_repeating_it(text):
    with pytest.raises(SettingsError) as raised:
        parse_keys(text)
    assert "s3cr3t" not in str(raised.value)
    assert "short" not in str(raised.value)


def test_a_key_may_hold_colons():
    assert (
        Keyring(parse_keys("trainer:t1:with:colons:inside:it")).identify("with:colons:inside:it").role
        is Role.TRAINER
    )


def test_keys_are_read_from_a_file_plain_or_as_digests(tmp_path):
    file = tmp_path / "keys.toml"
    digest = hashlib.sha256(OTHER.encode()).hexdigest()
    file.write_text(
        f'[[keys]]\nid = "t1"\nrole = "trainer"\nkey = "{KEY}"\n'
        f'[[keys]]\nid = "a1"\nrole = "ADMIN"\nsha256 = "{digest}"\n'
    )
    keyring = load_keyring(keys="agent:g1:0123456789abcdef", key_file=file, token_secret=None)
    assert keyring.identify(KEY).credential_id == "t1"
    assert keyring.identify(OTHER).role is Role.ADMIN
    assert keyring.identify("0123456789abcdef").role is Role.AGENT


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"keys = 5",
        b"keys = [5]",
        b"[[keys]]\nid = 'x'\n",
        b"[[keys]]\nid = 'x'\nrole = 'trainer'\nkey = 's3cr3t'\n",
        b"[[keys]]\nid = 'x'\nrole = 'trainer'\nsha256 = 'zz'\n",
        b"[[keys]]\nid = 'x'\nrole = 'trainer'\nsha256 = 'abcd'\n",
        b"[[keys]]\nid = 'x'\nrole = 5\nkey = '0123456789abcdef'\n",
        b"not toml",
        b"\xff\xfe",
    ],
    ids=repr,
)
def test_a_file_of_another_form_is_refused(tmp_path, content):
    file = tmp_path / "keys.toml"
    file.write_bytes(content)
    with pytest.raises(SettingsError) as raised:
        read_key_file(file)
    assert "s3cr3t" not in str(raised.value)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(SettingsError, match="missing"):
        read_key_file(tmp_path / "missing.toml")


def test_no_repr_shows_a_key(keyring):
    assert KEY not in repr(keyring) + repr(parse_keys(f"trainer:t1:{KEY}"))
