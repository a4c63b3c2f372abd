"""What a filter means, on a record that is at hand."""

from ors_server.store.base import EpisodeFilter
from ors_server.trajectory import EpisodeRecord

_OF_ORIGIN = ("environment", "split", "index", "task_hash", "session_id", "credential_id")
_OF_SUMMARY = ("phase", "stop_reason")


def matches(wanted: EpisodeFilter, record: EpisodeRecord) -> bool:
    """Say whether an episode is meant.

    Args:
        wanted: Which ones are.
        record: The episode.
    """
    origin, summary = record.origin, record.summary
    return (
        all(getattr(wanted, name) in {None, getattr(origin, name)} for name in _OF_ORIGIN)
        and all(getattr(wanted, name) in {None, getattr(summary, name)} for name in _OF_SUMMARY)
        and all(origin.labels.get(key) == value for key, value in wanted.labels.items())
        and (wanted.since is None or origin.created_at >= wanted.since)
        and (wanted.until is None or origin.created_at < wanted.until)
        and (wanted.min_return is None or summary.episode_return >= wanted.min_return)
        and (wanted.max_return is None or summary.episode_return <= wanted.max_return)
        and wanted.closed in {None, record.is_closed}
    )
