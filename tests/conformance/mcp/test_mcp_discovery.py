"""What programs learn of the server before they play: its card, its icon, its skill."""

import hashlib

import pytest

from ors_server import __version__
from ors_server.doors.mcp.skills import SKILL_URI

SKILLS = "io.modelcontextprotocol/skills"


@pytest.mark.parametrize("path", ["/mcp/server-card", "/.well-known/mcp/server-card.json"])
async def test_the_card_says_where_the_lobby_is_and_needs_no_credential(make_site, path):
    site = await make_site(api_keys="trainer:t:trainer-key-0123456789")
    async with site.http() as http:
        answer = await http.get(f"{site.url}{path}")
    card = answer.json()
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/mcp-server-card+json"
    assert card["$schema"] == "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"
    assert (card["name"], card["version"]) == ("io.github.ors-server/ors-server", __version__)
    assert len(card["description"]) <= 100
    (remote,) = card["remotes"]
    assert (remote["type"], remote["url"]) == ("streamable-http", f"{site.url}/mcp")
    assert {"2025-11-25", "2026-07-28"} <= set(remote["supportedProtocolVersions"])
    assert [header["name"] for header in remote["headers"]] == ["X-API-Key"]
    assert "desk" not in answer.text


async def test_the_card_agrees_with_the_server(site, era):
    async with site.http() as http:
        card = (await http.get(f"{site.url}/mcp/server-card")).json()
    assert "headers" not in card["remotes"][0]
    async with site.client("/mcp", era) as client:
        info = client.server_info
    assert (info.title, info.version) == (card["title"], card["version"])
    assert [icon.src for icon in info.icons or ()] == [icon["src"] for icon in card["icons"]]


async def test_the_lobby_has_a_skill_whose_text_its_digest_describes(site):
    listed = (await site.post("/mcp", "skills/list")).json()["result"]
    (skill,) = listed["skills"]
    (file,) = skill["resources"]
    got = (await site.post("/mcp", "skills/get", {"uri": skill["uri"]}, {"Mcp-Name": skill["uri"]})).json()
    read = (await site.post("/mcp", "resources/read", {"uri": skill["uri"]})).json()["result"]
    text = read["contents"][0]["text"].encode()
    assert (listed["resultType"], listed["cacheScope"]) == ("complete", "public")
    assert got["result"]["skill"] == skill
    assert file == {
        "uri": skill["uri"],
        "digest": f"sha256:{hashlib.sha256(text).hexdigest()}",
        "size": len(text),
    }
    name, description = skill["frontmatter"]["name"], skill["frontmatter"]["description"]
    assert skill["uri"] == f"skill://{name}/SKILL.md"
    assert text.decode().startswith(f"---\nname: {name}\ndescription: {description}\n---\n")
    discovered = (await site.post("/mcp", "server/discover")).json()["result"]
    assert discovered["capabilities"]["extensions"][SKILLS] == {}


async def test_an_episode_has_no_skills(site):
    path = f"/sessions/{await site.start()}/mcp"
    assert (await site.post(path, "skills/list")).json()["result"]["skills"] == []
    for method in ("skills/get", "resources/read"):
        answer = await site.post(path, method, {"uri": SKILL_URI})
        assert answer.json()["error"]["code"] == -32602
    discovered = (await site.post(path, "server/discover")).json()["result"]
    assert SKILLS not in discovered["capabilities"]["extensions"]


async def test_an_unknown_skill_is_refused(site):
    answer = await site.post("/mcp", "skills/get", {"uri": "skill://other/SKILL.md"})
    assert answer.json()["error"]["code"] == -32602
