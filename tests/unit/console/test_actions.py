"""What a person does with an episode from its page; each is asked for, guarded and logged."""

import json
import logging
import re
from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel
import pytest

from ors_server.model import logs
from tests.unit.console.conftest import Lamp, opened
from tests.unit.console.test_sign_in import ORIGIN, csrf_of


@asynccontextmanager
async def played(*, ended=True, **options):
    """A client, the page of an episode of one call, its path and the token of its forms."""
    async with opened(**options) as client:
        created = (await client.post("/_ors/sessions", json={"split": "train", "index": 0, "seed": 7})).json()
        calls = f"/_ors/sessions/{created['session_id']}"
        await client.post(f"{calls}/calls", json={"name": "press"})
        if ended:
            await client.delete(calls)
        path = f"/console/episodes/{created['status']['episode_id']}"
        yield client, path, csrf_of(await client.get(path))


@pytest.mark.parametrize("action", ["note", "replay", "fork", "regrade"])
async def test_no_action_without_the_token_of_the_page(action):
    async with played() as (client, path, token):
        for data, headers in (({}, ORIGIN), ({"csrf": token}, {"origin": "http://evil.example"})):
            answer = await client.post(f"{path}/{action}", data={"text": "x", **data}, headers=headers)
            assert answer.status_code == 403
        assert "evil" not in (await client.get(path)).text


async def test_a_note_is_kept_beside_the_record_and_logged(caplog):
    caplog.set_level(logging.INFO, logger=logs.ROOT)
    async with played() as (client, path, token):
        note = {"csrf": token, "text": "Looks\r\n<b>forged</b>", "verdict": "cheated", "step": "1"}
        answer = await client.post(f"{path}/note", data=note, headers=ORIGIN)
        assert (answer.status_code, answer.headers["location"]) == (303, f"{path}#notes")
        page = (await client.get(path)).text
        assert "<b>cheated</b> Looks\n&lt;b&gt;forged&lt;/b&gt;" in page
        assert f'href="{path}?step=1#s1">step 1</a>' in page
        for wrong in ({"text": " "}, {"text": "x", "step": "2"}, {"text": "x", "step": "one"}):
            answer = await client.post(f"{path}/note", data={"csrf": token, **wrong}, headers=ORIGIN)
            assert answer.status_code == 422
    assert re.search(r"'action': 'note'.*'event': 'console_action'", caplog.text)


async def test_an_episode_is_played_again_into_a_new_record():
    async with played() as (client, path, token):
        answer = await client.post(f"{path}/replay", data={"csrf": token}, headers=ORIGIN)
        replayed = answer.headers["location"]
        assert answer.status_code == 303
        assert replayed != path
        with anyio.fail_after(20):
            while "Ended early after 1 step" not in (page := (await client.get(replayed)).text):
                await anyio.lowlevel.checkpoint()
        original = path.rpartition("/")[2]
        assert f"/console/compare?a={original}&amp;b={replayed.rpartition('/')[2]}" in page
        record = (await client.get(replayed.replace("/console", "/_ors"))).json()
        assert (record["seed"], record["labels"]) == (7, {"replay_of": original})
        compared = (await client.get(f"/console/compare?a={original}&b={record['episode_id']}")).text
        assert "1 identical step" in compared


class Copied(Lamp):
    """Can be copied."""

    def save_state(self):
        return {"is": "on"}

    def load_state(self, state):
        assert state == {"is": "on"}


async def test_a_live_session_is_copied():
    async with played(ended=False, environment=Copied) as (client, path, token):
        answer = await client.post(f"{path}/fork", data={"csrf": token}, headers=ORIGIN)
        page = (await client.get(answer.headers["location"])).text
        assert answer.status_code == 303
        assert "forked from" in page
    async with played() as (client, path, token):
        answer = await client.post(f"{path}/fork", data={"csrf": token}, headers=ORIGIN)
        assert (answer.status_code, 'role="alert"' in answer.text) == (404, True)


async def test_an_episode_is_judged_by_another_reward():
    async with played() as (client, path, token):
        page = (await client.get(f"{path}/regrade")).text
        assert "<option>exact_match_reward</option>" in page
        form = {"csrf": token, "reward": "exact_match_reward", "options": '{"answer": ""}'}
        answer = await client.post(f"{path}/regrade", data=form, headers=ORIGIN)
        assert answer.status_code == 200
        assert re.search(r"<dt>Status</dt><dd>\w+</dd>", answer.text)
        for wrong in ({"reward": "os:system"}, {"options": "["}, {"reward": ""}):
            answer = await client.post(f"{path}/regrade", data={**form, **wrong}, headers=ORIGIN)
            assert (answer.status_code, 'role="alert"' in answer.text) == (422, True)


@pytest.mark.parametrize("form", ["plain", "openai", "sharegpt", "trl"])
async def test_an_episode_is_downloaded(form):
    async with played() as (client, path, _):
        answer = await client.get(f"{path}/export?format={form}")
        if form == "plain":
            assert json.loads(answer.text)["steps"][0]["tool"] == "press"
            assert answer.headers["content-disposition"].endswith("-plain.jsonl")
        else:  # its prompt was never requested, which a conversation needs
            assert (answer.status_code, "without a prompt" in answer.text) == (422, True)
        assert (await client.get(f"{path}/export?format=verl")).status_code == 422
