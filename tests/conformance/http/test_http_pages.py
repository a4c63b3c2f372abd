"""Pages of other origins: what is accepted may be read, and asking whether is no request (CORS)."""

import pytest

from tests.conformance.http.conftest import INITIALIZE, request

OURS = "https://console.example"
MCP = ("Content-Type: application/json", "Accept: application/json, text/event-stream")


@pytest.fixture(scope="module")
def port(serve_live, refenv):
    """The port of a server that accepts one origin, and wants keys."""
    keys = "trainer:me:a-key-of-16-letters-or-more"
    return serve_live(f"{refenv}:RefEnv", allowed_origins=[OURS], api_keys=keys).port


PATHS = [
    "/mcp",
    "/sessions/s/mcp",
    "/agent/agt_x/mcp",
    "/call",
    "/refenv/call",
    "/health",
    "/_ors/sessions",
    "/nothing",
]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("origin", [OURS, "http://localhost:3000", "http://127.0.0.1:5173"])
def test_a_preflight_is_answered_and_makes_nothing(ask, path, origin):
    wanted = "Authorization, Content-Type, Mcp-Session-Id, X-Session-ID"
    answer = ask(
        request(
            f"OPTIONS {path}",
            f"Origin: {origin}",
            "Access-Control-Request-Method: POST",
            f"Access-Control-Request-Headers: {wanted}",
        )
    )
    assert (answer.status, answer.body) == (204, b"")
    assert answer.headers["access-control-allow-origin"] == origin
    assert {"POST", "GET", "DELETE"} <= set(answer.headers["access-control-allow-methods"].split(", "))
    assert answer.headers["access-control-allow-headers"] == wanted
    assert "Origin" in answer.headers["vary"]
    assert "mcp-session-id" not in answer.headers
    assert "content-length" not in answer.headers  # RFC 9110, section 8.6


@pytest.mark.parametrize("path", PATHS)
def test_answers_and_refusals_may_be_read_by_an_accepted_page(ask, path):
    answer = ask(request(f"GET {path}", f"Origin: {OURS}"))
    assert answer.headers["access-control-allow-origin"] == OURS
    assert answer.headers["vary"] == "Origin"
    assert "Mcp-Session-Id" in answer.headers["access-control-expose-headers"]
    assert "access-control-allow-credentials" not in answer.headers


def test_a_page_may_play(ask):
    headers = (f"Origin: {OURS}", "X-API-Key: a-key-of-16-letters-or-more", *MCP)
    answer = ask(request("POST /mcp", *headers, body=INITIALIZE))
    assert (answer.status, answer.headers["access-control-allow-origin"]) == (200, OURS)
    assert answer.headers["mcp-session-id"]


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "null",
        "http://console.example",
        f"{OURS}:444",
        f"{OURS}.evil.example",
        "https://localhost.x",
    ],
)
@pytest.mark.parametrize("method", ["GET", "OPTIONS", "POST"])
def test_other_pages_learn_nothing(ask, origin, method):
    headers = (f"Origin: {origin}", "Access-Control-Request-Method: POST")
    answer = ask(request(f"{method} /health", *headers, body=b"" if method == "POST" else None))
    assert answer.status == 403
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_two_origins_are_none_and_who_is_no_page_gets_no_word_for_pages(ask):
    assert ask(request("GET /health", f"Origin: {OURS}", "Origin: https://evil.example")).status == 403
    headers = ask(request("GET /health")).headers
    assert not [name for name in headers if name.startswith("access-control") or name == "vary"]


@pytest.mark.parametrize("method", ["OPTIONS", "PUT", "PATCH", "TRACE"])
def test_a_method_that_mcp_does_not_have_makes_no_session(ask, method):
    answer = ask(request(f"{method} /mcp", "X-API-Key: a-key-of-16-letters-or-more"))
    assert (answer.status, answer.headers["allow"]) == (405, "GET, POST, DELETE")
    assert "mcp-session-id" not in answer.headers
