"""`store verify` recomputes every figure of a summary: one that it leaves out fails here."""

from dataclasses import fields, replace
from datetime import timedelta

import pytest

from ors_server.model.trajectory import FIGURES as TABLE
from ors_server.model.trajectory import EpisodeSummary
from ors_server.store.memory import MemoryStore
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
