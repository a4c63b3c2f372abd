"""Who may look: keys, cookies, forms, and what every answer forbids a browser."""

import re

import pytest

from ors_server.model.errors import StoreError
from ors_server.store.memory import MemoryStore
from tests.unit.console.conftest import KEYS, opened

TRAINER, ADMIN, AGENT = (entry.split(":")[2] for entry in KEYS.split(","))
ORIGIN = {"origin": "http://localhost:8080"}


def csrf_of(page):
    return re.search(r'name="csrf" value="([^"]+)"', page.text)[1]


async def sign_in(client, key, **form):
    token = csrf_of(await client.get("/console/sign-in"))
    return await client.post("/console/sign-in", data={"key": key, "csrf": token, **form}, headers=ORIGIN)


async def test_a_browser_is_led_to_the_console_and_a_program_gets_the_doors():
    async with opened() as client:
        browser = await client.get("/", headers={"accept": "text/html,*/*"})
        assert (browser.status_code, browser.headers["location"]) == (303, "console")
        program = await client.get("/", headers={"accept": "*/*"})
        assert program.json()["doors"]["console"] == "/console"
    async with opened(console=False) as client:
        front = await client.get("/", headers={"accept": "text/html"})
        assert "console" not in front.json()["doors"]
        assert (await client.get("/console/episodes")).status_code == 404


async def test_every_answer_has_the_guards():
    async with opened(api_keys=KEYS) as client:
        for path in (
            "/console/sign-in",
            "/console/episodes",
            "/console/none",
            "/console/static/0/console.css",
        ):
            headers = (await client.get(path)).headers
            assert headers["content-security-policy"].startswith("default-src 'none'"), path
            assert "unsafe" not in headers["content-security-policy"]
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["cache-control"] == "no-store"


async def test_a_server_with_keys_asks_for_one_and_leads_back():
    async with opened(api_keys=KEYS) as client:
        refused = await client.get("/console/episodes?tab=live")
        assert refused.status_code == 303
        assert refused.headers["location"] == "/console/sign-in?next=%2Fconsole%2Fepisodes%3Ftab%3Dlive"
        answer = await sign_in(client, TRAINER, next="/console/episodes?tab=live")
        assert (answer.status_code, answer.headers["location"]) == (303, "/console/episodes?tab=live")
        cookie = answer.headers["set-cookie"]
        assert cookie.startswith("ors_console_8080=")
        assert all(part in cookie for part in ("HttpOnly", "SameSite=Lax", "Path=/console", "Max-Age=28800"))
        assert TRAINER not in cookie
        assert (await client.get("/console/episodes")).status_code == 200


async def test_the_cookie_of_https_is_bound_to_the_host():
    async with opened(api_keys=KEYS, public_url="https://ors.example.org") as client:
        token = csrf_of(await client.get("/console/sign-in"))
        headers = {"origin": "https://ors.example.org"}
        answer = await client.post("/console/sign-in", data={"key": TRAINER, "csrf": token}, headers=headers)
        cookie = answer.headers["set-cookie"]
        assert cookie.startswith("__Host-ors_console_443=")
        assert "Path=/;" in cookie
        assert cookie.endswith("; Secure")


@pytest.mark.parametrize(
    "target",
    [
        "https://evil.example",
        "//evil.example",
        "/console//evil",
        "/console\\evil",
        "/elsewhere",
        "javascript:1",
    ],
)
async def test_a_sign_in_leads_to_no_other_place(target):
    async with opened(api_keys=KEYS) as client:
        assert (await sign_in(client, TRAINER, next=target)).headers["location"] == "/console"


async def test_agents_open_nothing():
    async with opened(api_keys=KEYS) as client:
        created = await client.post(
            "/_ors/sessions", json={"split": "train", "index": 0}, headers={"x-api-key": TRAINER}
        )
        for credential in (AGENT, created.json()["agent_token"]):
            answer = await sign_in(client, credential)
            assert answer.status_code == 403
            assert "set-cookie" not in answer.headers
            direct = await client.get("/console/episodes", headers={"x-api-key": credential})
            assert direct.status_code == 303
        assert (await sign_in(client, "wrong-key-0123456789")).status_code == 401


async def test_wrong_keys_are_limited():
    async with opened(api_keys=KEYS) as client:
        statuses = [(await sign_in(client, f"wrong-key-{n}")).status_code for n in range(6)]
        assert statuses == [401] * 5 + [429]
        late = await sign_in(client, TRAINER)
        assert (late.status_code, late.headers["retry-after"]) == (429, "60")


async def test_a_session_ends_with_signing_out_and_with_its_key():
    async with opened(api_keys=KEYS) as client:
        await sign_in(client, TRAINER)
        page = await client.get("/console/episodes")
        cookie = dict(client.cookies)
        left = await client.post("/console/sign-out", data={"csrf": csrf_of(page)}, headers=ORIGIN)
        assert left.status_code == 303
        assert "Max-Age=0" in left.headers["set-cookie"]
        client.cookies.update(cookie)
        assert (await client.get("/console/episodes")).status_code == 303
        client.cookies.clear()
        await sign_in(client, TRAINER)
        assert (await client.get("/console/episodes")).status_code == 200
        client.app.keyring.replace_keys(key for key in client.app.keyring._keys.values() if key.id != "tim")
        assert (await client.get("/console/episodes")).status_code == 303
        assert (await client.get("/console/episodes", headers={"hx-request": "true"})).status_code == 401


@pytest.mark.parametrize(
    ("headers", "has_token"),
    [({}, True), ({"origin": "http://localhost:9999"}, True), ({"origin": "null"}, True), (ORIGIN, False)],
)
@pytest.mark.parametrize("keys", ["", KEYS])
async def test_forms_of_other_pages_are_refused(headers, has_token, keys):
    async with opened(api_keys=keys) as client:
        if keys:
            await sign_in(client, ADMIN)
        token = csrf_of(await client.get("/console/episodes")) if has_token and keys else "0" * 64
        answer = await client.post("/console/sign-out", data={"csrf": token}, headers=headers)
        assert answer.status_code == 403
        if keys:
            assert (await client.get("/console/episodes")).status_code == 200


class BrokenStore(MemoryStore):
    """A record that is gone for a while."""

    is_gone = False

    async def page(self, *arguments, **options):
        if self.is_gone:
            raise StoreError("the record cannot be read: no such host")
        return await super().page(*arguments, **options)


async def test_a_record_that_is_gone_is_a_page_that_comes_back_by_itself():
    store = BrokenStore()
    async with opened(store) as client:
        store.is_gone = True
        page = await client.get("/console/episodes?tab=live")
        assert page.status_code == 503
        assert page.headers["refresh"] == "5"
        assert "no such host" in page.text
        assert 'href="/console/episodes?tab=live">Try again' in page.text
        store.is_gone = False
        assert (await client.get("/console/episodes?tab=live")).status_code == 200


async def test_too_long_and_malformed_requests_are_refused_politely():
    async with opened() as client:
        for path in ("/console/episodes?" + "a=1&" * 1001, "/console/%00", "/console/episodes/%ff%fe"):
            assert (await client.get(path)).status_code in {400, 404, 422}
        token = csrf_of(await client.get("/console/environments/lamp"))
        big = await client.post("/console/play", data={"csrf": token, "x": "y" * 1_100_000}, headers=ORIGIN)
        assert big.status_code == 413
        assert (
            await client.post("/console/episodes", data={"csrf": token}, headers=ORIGIN)
        ).status_code == 405
        assert (await client.head("/console/episodes")).status_code == 200


async def test_a_page_of_the_servers_own_origin_may_send_forms():
    """The name was accepted as the Host, so the same name is no stranger as the Origin."""
    async with opened(api_keys=KEYS, allowed_hosts=["ors.example.org"]) as client:
        client.base_url = "http://ors.example.org"
        token = csrf_of(await client.get("/console/sign-in"))
        form = {"key": TRAINER, "csrf": token}
        own = await client.post("/console/sign-in", data=form, headers={"origin": "http://ors.example.org"})
        assert own.status_code == 303
        other = await client.post("/console/sign-in", data=form, headers={"origin": "http://evil.example"})
        assert other.status_code == 403


async def test_files_are_kept_by_their_hash_and_compressed():
    async with opened() as client:
        page = (await client.get("/console/episodes")).text
        address = re.search(r'href="([^"]+console\.css)"', page)[1]
        file = await client.get(address)
        assert file.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert file.headers["content-encoding"] == "gzip"
        plain = await client.get(address, headers={"accept-encoding": "identity"})
        assert "content-encoding" not in plain.headers
        assert plain.text == file.text
        assert (await client.get(address.replace("console.css", "page.js"))).status_code == 404


async def test_a_first_load_without_charts_is_small(filled):
    client, ids = filled
    page = (await client.get(f"/console/episodes/{ids['shell']}")).text
    size = 0
    for address in re.findall(r'(?:src|href)="(/console/static/[^"]+)"', page):
        async with client.stream("GET", address) as answer:
            size += int(answer.headers["content-length"])
    assert 10_000 < size < 60 * 1024
