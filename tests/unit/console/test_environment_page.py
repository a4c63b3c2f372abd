"""The page of an environment: its tasks by their words, the prompt of one, and what its audit found."""

import json
import re

import pytest

from ors_server.doors.control import models
from ors_server.store.episode_filter import EpisodeFilter
from tests.unit.console.conftest import Lamp, opened
from tests.unit.console.test_sign_in import ORIGIN, csrf_of

PAGE = "/console/environments/riddles"
INDEX = re.compile(r'aria-label="Prompt of task (\d+)"')
NEXT = re.compile(r'rel="next" href="([^"]+)"')


class LanternRiddles(Lamp):
    """Has sixty riddles, two of them about a lantern."""

    name = "riddles"
    TASKS = tuple({"question": f"{'a Lantern' if n in {7, 55} else 'a <b>'}, {n}"} for n in range(60))
    WORDS = "Riddle: {question}?"


async def test_tasks_are_found_by_their_words():
    async with opened(environment=LanternRiddles) as client:
        assert INDEX.findall((await client.get(PAGE)).text) == [str(n) for n in range(25)]
        page = (await client.get(f"{PAGE}?split=train&words=LANTERN")).text
        assert INDEX.findall(page) == ["7", "55"]
        assert "2 of the tasks 0 to 59 have these words." in page
        none = (await client.get(f"{PAGE}?words=no+such")).text
        assert INDEX.findall(none) == []
        assert "0 of the tasks 0 to 59 have these words." in none


async def test_a_search_that_looks_at_a_part_of_the_tasks_says_so_and_continues(monkeypatch):
    monkeypatch.setattr(models, "MAX_PAGE", 10)
    monkeypatch.setattr("ors_server.console.server_pages.MAX_SEARCHED_TASKS", 20)
    async with opened(environment=LanternRiddles) as client:
        page = (await client.get(f"{PAGE}?words=lantern")).text
        assert INDEX.findall(page) == ["7"]
        assert "1 of the tasks 0 to 19 have these words." in page
        page = (await client.get(NEXT.search(page)[1].replace("&amp;", "&"))).text
        assert "0 of the tasks 20 to 39 have these words." in page
        page = (await client.get(NEXT.search(page)[1].replace("&amp;", "&"))).text
        assert INDEX.findall(page) == ["55"]
        assert NEXT.search(page) is None


async def test_more_matches_than_a_page_holds_are_on_the_next_one():
    async with opened(environment=LanternRiddles) as client:
        page = (await client.get(f"{PAGE}?words=a+%3Cb%3E")).text
        assert len(INDEX.findall(page)) == 25
        following = (await client.get(NEXT.search(page)[1].replace("&amp;", "&"))).text
        assert INDEX.findall(following)[0] == str(int(INDEX.findall(page)[-1]) + 1)


async def test_the_prompt_of_a_task_is_shown_from_its_record_or_by_a_session_that_ends():
    async with opened(environment=LanternRiddles) as client:
        form = {"csrf": csrf_of(await client.get(PAGE)), "split": "train", "index": "3"}
        for _ in range(2):
            page = await client.post(f"{PAGE}/prompt?start=2", data=form, headers=ORIGIN)
            assert page.status_code == 200
            assert "Riddle: a &lt;b&gt;, 3?" in page.text
            assert INDEX.findall(page.text)[0] == "2"
        assert await client.app.manager.sessions() == []
        (record,) = await client.app.manager.services.store.page(EpisodeFilter())
        assert record.origin.labels == {"player": "preview"}
        assert record.is_closed
        wrong = await client.post(f"{PAGE}/prompt", data={**form, "index": "60"}, headers=ORIGIN)
        assert wrong.status_code in {404, 422}


CLASSES = [
    {
        "id": "H1",
        "verdict": "fail",
        "is_waived": False,
        "findings": [{"message": "an empty <answer> pays 1"}],
    },
    {"id": "H2", "verdict": "warn", "is_waived": False, "findings": [{"message": "the prompt is long"}]},
    {"id": "H3", "verdict": "fail", "is_waived": True, "findings": [{"message": "known"}]},
    {"id": "H4", "verdict": "pass", "is_waived": False, "findings": []},
]


async def test_the_findings_of_a_kept_audit_are_shown(tmp_path):
    async with opened(environment=LanternRiddles, audits=tmp_path) as client:
        assert "audit-title" not in (await client.get(PAGE)).text
        report = {"version": "0.9", "classes": CLASSES}
        (tmp_path / "riddles.json").write_text(json.dumps(report))
        page = (await client.get(PAGE)).text
        assert "Audit of version 0.9" in page
        assert '<p class="notice bad"><b>H1</b> an empty &lt;answer&gt; pays 1</p>' in page
        assert '<p class="notice"><b>H2</b> the prompt is long</p>' in page
        assert "known" not in page
        (tmp_path / "riddles.json").write_text(json.dumps({"version": "0.9", "classes": CLASSES[2:]}))
        assert "No hole was found that is not waived." in (await client.get(PAGE)).text


@pytest.mark.parametrize("text", ["", "[]", "{", '{"classes": 3}', '{"classes": [{"id": 1}]}', "[" * 100_000])
async def test_a_report_that_cannot_be_read_is_named(tmp_path, text):
    (tmp_path / "riddles.json").write_text(text)
    async with opened(environment=LanternRiddles, audits=tmp_path) as client:
        page = await client.get(PAGE)
        assert page.status_code == 200
        assert "cannot be read" in page.text
