"""Writes episodes that were read from files to a store."""

from dataclasses import replace
from functools import partial

from ors_server.export.episode_file import Episode
from ors_server.store.base import EpisodeStore


async def store_episode(store: EpisodeStore, episode: Episode) -> bool:
    """Write an ended episode; return whether it was new.

    An episode that is in the store stays as it is. One that was exported while it was played is not written:
    the next server on the store would take it for a session that it must continue.
    """
    record, steps = episode
    episode_id = record.origin.episode_id
    if not record.is_closed or await store.find(episode_id) is not None:
        return False
    summary = record.summary
    await store.open(record.origin)
    if record.prompt is not None:
        store.record_prompt(episode_id, record.prompt)
    for step in steps:
        await store.append(episode_id, step, partial(replace, summary, steps=step.number))
    for transition in record.transitions:
        store.record_transition(episode_id, transition, summary)
    for incident in record.incidents:
        await store.record_incident(episode_id, incident)
    await store.close(episode_id, summary)
    return True
