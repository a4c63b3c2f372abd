"""What operators of a server do while it runs: keys and certificates that change, limits of keys, its log."""

import datetime as dt
import json
import re
import signal
import ssl
import urllib.error
import urllib.request
from ipaddress import ip_address

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

REFENV = "tests/fixtures/refenv.py:RefEnv"
LIMIT = 60
OLD, NEW, ADMIN = "old-key-0123456789abcdef", "new-key-0123456789abcdef", "admin-key-0123456789abcd"


def write_keys(path, *tables):
    path.write_text("".join(f"[[keys]]\n{table}\n" for table in tables))


def key(identifier, secret, role="trainer", rest=""):
    return f'id = "{identifier}"\nrole = "{role}"\nkey = "{secret}"\n{rest}'


def ask(server, method, path, secret=None, body=None, context=None):
    """Returns the status, the headers and the JSON of an answer."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json", **({} if secret is None else {"X-API-Key": secret})}
    request = urllib.request.Request(f"{server.url}{path}", data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=LIMIT, context=context) as answer:
            return answer.status, answer.headers, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, error.headers, json.load(error)


def hang_up(server, event):
    """Sends SIGHUP and waits for its event in the log."""
    server.process.send_signal(signal.SIGHUP)
    for line in server.process.stderr:
        if event in line:
            return line
    raise AssertionError(f"the log ended without {event}")


def test_sighup_reads_the_keys_again_and_live_sessions_stay(serve, tmp_path):
    keys = tmp_path / "keys.toml"
    write_keys(keys, key("old", OLD))
    server = serve(REFENV, "--api-keys-file", str(keys), "--store", "memory")
    body = {"split": "train", "index": 0, "session_id": "one"}
    _, _, made = ask(server, "POST", "/_ors/sessions", OLD, body)
    write_keys(keys, key("new", NEW), key("operations", ADMIN, "admin"))
    assert "keys=2" in hang_up(server, "keys_reloaded")
    assert ask(server, "GET", "/_ors/sessions", OLD)[0] == 401
    assert [one["session_id"] for one in ask(server, "GET", "/_ors/sessions", NEW)[2]["sessions"]] == ["one"]
    assert ask(server, "GET", "/_ors/sessions/one/prompt", made["agent_token"])[0] == 200
    assert ask(server, "GET", "/_ors/settings", ADMIN)[0] == 200


@pytest.mark.parametrize("text", ["[[keys]", "", '[[keys]]\nid = "x"\nrole = "boss"\nkey = "a"'])
def test_a_key_file_with_a_mistake_leaves_the_old_keys(serve, tmp_path, text):
    keys = tmp_path / "keys.toml"
    write_keys(keys, key("old", OLD))
    server = serve(REFENV, "--api-keys-file", str(keys), "--store", "memory")
    keys.write_text(text)
    assert "keys.toml" in hang_up(server, "keys_not_reloaded")
    assert ask(server, "GET", "/_ors/sessions", OLD)[0] == 200
    assert ask(server, "GET", "/_ors/sessions")[0] == 401


def test_without_files_to_read_sighup_ends_the_server_in_order(serve, run, tmp_path):
    store = str(tmp_path / "episodes.db")
    server = serve(REFENV, "--store", store)
    assert ask(server, "POST", "/_ors/sessions", body={"split": "train", "index": 0})[0] == 201
    server.stop(with_signal=signal.SIGHUP)
    assert server.process.returncode == -signal.SIGHUP
    listed = run("episodes", "list", "--store", store, "--json").json
    assert (listed["episode"]["stop_reason"], listed["closed"]) == ("shutdown", True)


def test_a_key_has_an_end_and_limits_of_its_own(serve, tmp_path):
    keys = tmp_path / "keys.toml"
    limits = "max_sessions = 1\ncalls_per_minute = 2\n"
    ended = "ended-key-0123456789abcd"
    write_keys(
        keys,
        key("tight", OLD, rest=limits),
        key("free", NEW, rest="expires = 2999-01-01\n"),
        key("ended", ended, rest="expires = 2020-01-01T00:00:00Z\n"),
    )
    server = serve(REFENV, "--api-keys-file", str(keys), "--store", "memory")
    status, _, answer = ask(server, "GET", "/_ors/sessions", ended)
    assert (status, answer["code"]) == (401, "unauthenticated")
    assert "'ended' expired at 2020-01-01T00:00:00+00:00" in answer["detail"]
    bodies = [{"split": "train", "index": 0, "session_id": name} for name in ("one", "two")]
    assert [ask(server, "POST", "/_ors/sessions", OLD, body)[0] for body in bodies] == [201, 429]
    assert [ask(server, "POST", "/_ors/sessions", NEW, body)[0] for body in bodies] == [409, 201]
    call = {"name": "whoami", "arguments": {}}
    token = ask(server, "POST", "/_ors/sessions/one/token", OLD)[2]["agent_token"]
    answers = [ask(server, "POST", "/_ors/sessions/one/calls", who, call) for who in (OLD, token, token)]
    assert [status for status, _, _ in answers] == [200, 200, 429]
    _, headers, refused = answers[-1]
    assert int(headers["Retry-After"]) in range(1, 31)
    assert "2 calls per minute" in refused["detail"]
    assert ask(server, "GET", "/_ors/sessions/one", OLD)[2]["episode"]["steps"] == 2
    assert [ask(server, "POST", "/_ors/sessions/two/calls", NEW, call)[0] for _ in range(4)] == [200] * 4


@pytest.mark.parametrize(
    ("rest", "why"),
    [
        ('expires = "soon"', "expected a date or time as expires"),
        ("max_sessions = 0", "expected a whole number of at least 1 as max_sessions"),
        ("calls_per_minute = 1.5", "expected a whole number of at least 1 as calls_per_minute"),
        ("labels = { run = 1 }", "expected a table of texts as labels"),
        ("limit = 3", "unknown name 'limit'"),
    ],
)
def test_a_key_with_a_mistake_keeps_the_server_from_starting(run, tmp_path, rest, why):
    keys = tmp_path / "keys.toml"
    write_keys(keys, key("a", OLD), key("b", NEW, rest=rest))
    ran = run("serve", REFENV, "--api-keys-file", str(keys), "--store", "memory")
    assert ran.status != 0
    assert why in " ".join(ran.err.split())
    assert OLD not in ran.err
    assert NEW not in ran.err


def test_the_log_says_what_admins_did_and_who_was_refused(serve, tmp_path):
    keys = tmp_path / "keys.toml"
    write_keys(keys, key("training", OLD), key("operations", ADMIN, "admin"))
    server = serve(REFENV, "--api-keys-file", str(keys), "--store", "memory", "--log-format", "json")
    assert ask(server, "POST", "/_ors/shutdown", OLD)[0] == 403
    assert ask(server, "GET", "/_ors/settings", ADMIN)[0] == 200
    assert ask(server, "POST", "/_ors/shutdown", ADMIN)[0] == 202
    events = [json.loads(line) for line in server.stop().splitlines()]
    acts = [
        (event["event"], event["method"], event["path"], event["credential_id"], event["role"])
        for event in events
        if event["event"].startswith("admin_act")
    ]
    assert acts == [
        ("admin_act_refused", "POST", "/shutdown", "training", "trainer"),
        ("admin_act", "GET", "/settings", "operations", "admin"),
        ("admin_act", "POST", "/shutdown", "operations", "admin"),
    ]


def write_certificate(folder, name):
    """Writes a certificate for loopback, signed by itself, and its private key."""
    private = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    hosts = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))])
    certificate = (
        x509.CertificateBuilder(subject, subject, private.public_key(), x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=2))
        .add_extension(hosts, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(private, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    (folder / "cert.pem").write_bytes(certificate.public_bytes(pem))
    form = serialization.PrivateFormat.PKCS8
    (folder / "key.pem").write_bytes(private.private_bytes(pem, form, serialization.NoEncryption()))
    return ssl.create_default_context(cadata=certificate.public_bytes(pem).decode())


def test_a_server_with_a_certificate_speaks_https_and_takes_a_new_one(serve, tmp_path):
    context = write_certificate(tmp_path, "first")
    files = ("--tls-cert", str(tmp_path / "cert.pem"), "--tls-key", str(tmp_path / "key.pem"))
    server = serve(REFENV, *files, "--store", "memory")
    assert re.fullmatch(r"https://127\.0\.0\.1:\d+", server.url)
    body = {"split": "train", "index": 0}
    status, _, made = ask(server, "POST", "/_ors/sessions", body=body, context=context)
    assert status == 201
    assert made["agent_url"].startswith(server.url)
    later = write_certificate(tmp_path, "second")
    hang_up(server, "certificate_reloaded")
    assert ask(server, "GET", "/_ors/ready", context=later)[0] == 200
    with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
        ask(server, "GET", "/_ors/ready", context=context)
    (tmp_path / "key.pem").write_text("no key")
    hang_up(server, "certificate_not_reloaded")
    assert ask(server, "GET", "/_ors/ready", context=later)[0] == 200


def test_a_certificate_that_cannot_be_used_keeps_the_server_from_starting(run, tmp_path):
    write_certificate(tmp_path, "first")
    memory = ("--store", "memory", "--port", "0")
    ran = run("serve", REFENV, "--tls-cert", str(tmp_path / "cert.pem"), *memory)
    assert (ran.status != 0, "expected PEM files" in " ".join(ran.err.split())) == (True, True)
    ran = run("serve", REFENV, "--tls-key", str(tmp_path / "key.pem"), *memory)
    assert (ran.status != 0, "tls_key is set without tls_cert" in " ".join(ran.err.split())) == (True, True)
