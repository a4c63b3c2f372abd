"""What no page of the console sends: fields that are missing or too long, other methods, other codings."""

import pytest

from tests.unit.console.conftest import KEYS, opened
from tests.unit.console.test_sign_in import ORIGIN, TRAINER, csrf_of, sign_in


@pytest.mark.parametrize(
    "place",
    [
        {"environment": "lamp", "index": "0"},
        {"environment": "lamp", "index": "9" * 20, "split": "test"},
        {"environment": "lamp", "index": "9" * 5_000, "split": "test"},
    ],
    ids=["no-split", "large-index", "endless-index"],
)
async def test_a_task_that_cannot_be_named_is_refused(filled, place):
    client, _ = filled
    csrf = csrf_of(await client.get("/console/environments/lamp"))
    answer = await client.post("/console/play", data={**place, "csrf": csrf}, headers=ORIGIN)
    assert 400 <= answer.status_code < 500


@pytest.mark.parametrize("place", ["/console/☃", "/console/\u2028x", "//elsewhere", "/console/a\\b"])
async def test_an_address_that_no_header_can_hold_leads_to_the_first_page(place):
    async with opened(api_keys=KEYS) as client:
        answer = await sign_in(client, TRAINER, next=place)
        assert (answer.status_code, answer.headers["location"]) == (303, "/console")
        assert "set-cookie" in answer.headers
        again = await client.get("/console/sign-in", params={"next": place})
        assert (again.status_code, again.headers["location"]) == (303, "/console")


async def test_too_many_parameters_are_refused_and_those_of_a_list_left_out(filled):
    client, ids = filled
    query = "a=1&" * 1_001
    assert (await client.get(f"/console/episodes?{query}")).status_code == 400
    episode = next(iter(ids.values()))
    assert (
        await client.get(f"/console/episodes/{episode}?list={query.replace('&', '%26')}")
    ).status_code == 200


@pytest.mark.parametrize("text", ["7" * 600_000, "1," * 60_000], ids=["digits", "commas"])
async def test_a_form_is_not_judged_as_json(text):
    async with opened(api_keys=KEYS) as client:
        answer = await sign_in(client, text)
        assert answer.status_code == 401


async def test_signing_in_takes_two_methods():
    async with opened(api_keys=KEYS) as client:
        answer = await client.put("/console/sign-in")
        assert (answer.status_code, answer.headers["allow"]) == (405, "GET, POST")


@pytest.mark.parametrize(
    ("accepted", "is_packed"),
    [
        ("gzip", True),
        ("br, gzip;q=0.5", True),
        ("gzip;q=0, identity", False),
        ("gzip; q=0.0", False),
        ("x", False),
    ],
)
async def test_files_are_packed_for_browsers_that_take_it(filled, accepted, is_packed):
    client, _ = filled
    page = await client.get("/console/episodes")
    address = page.text.split('rel="stylesheet" href="')[1].split('"')[0]
    answer = await client.get(address, headers={"accept-encoding": accepted})
    assert answer.status_code == 200
    assert ("content-encoding" in answer.headers) is is_packed


async def test_ending_a_session_that_is_on_record_only_is_no_success(filled):
    client, ids = filled
    csrf = csrf_of(await client.get("/console/environments/lamp"))
    for episode in ids.values():  # these are on record, and no session of this server
        answer = await client.post(f"/console/episodes/{episode}/end", data={"csrf": csrf}, headers=ORIGIN)
        assert answer.status_code == 404
        assert "on record only" in answer.text
