"""`store verify` recomputes every figure of a summary: one that it leaves out fails here."""

import json
import sqlite3
from contextlib import closing
from dataclasses import fields, replace
from datetime import timedelta

import pytest

from ors_server.model.recording import SUMMARY
from ors_server.model.trajectory import FIGURES as TABLE
from ors_server.model.trajectory import STEP_MAXIMA, EpisodeSummary
from ors_server.store.location import parse_location
from ors_server.store.memory import MemoryStore
from ors_server.store.open import open_store
from ors_server.store.sql.verification import verify
from ors_server.store.sql.verification_sums import StepSums
from ors_server.testing.local_client import open_environment
from tests.fixtures.failed_judgements import WAYS

NOT_SUMS = {name for name, figure in TABLE.items() if figure.not_verified is not None}
FIGURES = [field.name for field in fields(EpisodeSummary) if field.name not in NOT_SUMS]


async def recorded():
    way, store = WAYS["in the middle"], MemoryStore()
    async with open_environment(way.environment(), store=store) as client:
        session = await client.create(split="train", index=0)
        await way.play(client, session)
        await session.aclose()
        record = await store.find(session.id)
        return record, await store.steps(record.origin.episode_id)


def changed(value):
    if isinstance(value, dict):
        return {**value, "overlong": -7.0}
    if isinstance(value, str):
        return "created" if value != "created" else "ready"
    if value is None or isinstance(value, int | float):
        return (value or 0) + 7
    return value - timedelta(days=3)


@pytest.mark.parametrize("name", FIGURES)
async def test_another_value_of_a_figure_is_found(name):
    record, steps = await recorded()
    for summary, is_sound in (
        (record.summary, True),
        (replace(record.summary, **{name: changed(getattr(record.summary, name))}), False),
    ):
        sums = StepSums(record.origin)
        found = [complaint for step in steps for complaint in sums.add(step)]
        assert (not [*found, *sums.differences(summary)]) is is_sound


def test_only_metrics_are_not_recomputed():
    assert {"metrics"} == NOT_SUMS


@pytest.mark.parametrize("name", STEP_MAXIMA)
async def test_a_greatest_figure_that_an_older_server_did_not_know_is_no_finding(name, tmp_path):
    record, steps = await recorded()
    path = tmp_path / "episodes.db"
    store = await open_store(str(path))
    await store.open(record.origin)
    for step in steps:
        await store.append(record.origin.episode_id, step, lambda summary=record.summary: summary)
    await store.aclose()
    stated = json.loads(SUMMARY.write(record.summary))
    assert stated.pop(name) is not None
    for body, is_found in ((stated | {name: None}, True), (stated, False)):
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("UPDATE standings SET body = ?", [json.dumps(body)])
        findings = [finding.text for finding in verify(parse_location(str(path))).findings]
        assert any(f"summary's {TABLE[name].words} is None" in text for text in findings) is is_found
