"""A stream ends when the key that opened it is removed, over the control API and in the console."""

import re

import anyio
import httpx2
import pytest

from ors_server import create_app
from ors_server.model.settings import Settings
from tests.fixtures.loopback import listening
from tests.unit.console.conftest import Lamp

KEY, OTHER = "first-key-0123456789", "other-key-0123456789"
LIMIT = 60.0


def keys(*entries):
    return "".join(f'[[keys]]\nid = "{name}"\nrole = "trainer"\nkey = "{key}"\n' for name, key in entries)


@pytest.mark.parametrize("door", ["control", "console"])
async def test_a_stream_ends_when_its_key_is_removed(tmp_path, door):
    file = tmp_path / "keys.toml"
    file.write_text(keys(("first", KEY), ("other", OTHER)))
    settings = Settings(store="memory", api_keys_file=file, sse_ping_seconds=0.2)
    app = create_app([Lamp], settings)
    async with (
        listening(app) as url,
        httpx2.AsyncClient(base_url=url, timeout=LIMIT) as http,
        app.client().episode(split="train", index=0) as episode,
    ):
        path, headers = f"/_ors/episodes/{episode.session_id}/events", {"X-API-Key": KEY}
        if door == "console":
            csrf = re.search(r'name="csrf" value="([^"]+)"', (await http.get("/console/sign-in")).text)[1]
            form = {"key": KEY, "csrf": csrf}
            signed = await http.post("/console/sign-in", data=form, headers={"origin": url})
            assert signed.status_code == 303
            path, headers = f"/console/episodes/{episode.session_id}/events", {}
        async with http.stream("GET", path, headers=headers) as stream:
            assert stream.status_code == 200
            pieces = stream.aiter_raw()
            await anext(pieces)  # it is open
            file.write_text(keys(("other", OTHER)))
            app.reload_keys()
            with anyio.fail_after(LIMIT):
                async for _ in pieces:
                    pass
