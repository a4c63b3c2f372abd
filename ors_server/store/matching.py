"""Applies a filter to a record in memory."""

from ors_server.model.trajectory import EpisodeRecord
from ors_server.store.base import EpisodeFilter

_OF_ORIGIN = ("environment", "split", "index", "task_hash", "session_id", "credential_id")
_OF_SUMMARY = ("phase", "stop_reason")


def matches(episode_filter: EpisodeFilter, record: EpisodeRecord) -> bool:
    """Return whether an episode meets every condition of a filter."""
    origin, summary = record.origin, record.summary
    return (
        all(getattr(episode_filter, name) in {None, getattr(origin, name)} for name in _OF_ORIGIN)
        and all(getattr(episode_filter, name) in {None, getattr(summary, name)} for name in _OF_SUMMARY)
        and all(origin.labels.get(key) == value for key, value in episode_filter.labels.items())
        and (episode_filter.since is None or origin.created_at >= episode_filter.since)
        and (episode_filter.until is None or origin.created_at < episode_filter.until)
        and (episode_filter.min_return is None or summary.episode_return >= episode_filter.min_return)
        and (episode_filter.max_return is None or summary.episode_return <= episode_filter.max_return)
        and episode_filter.closed in {None, record.is_closed}
        and episode_filter.unjudged in {None, summary.unjudged_steps > 0}
    )
