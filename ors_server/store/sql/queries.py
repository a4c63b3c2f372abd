"""SELECT statements for episodes and their statistics."""

from typing import Any

from sqlalchemy import ColumnElement, Select, case, exists, false, func, select, tuple_

from ors_server.store.base import EpisodeFilter
from ors_server.store.sql.column_values import as_bigint, as_search_text, to_microseconds
from ors_server.store.sql.record_tables import episodes, labels, standings, steps
from ors_server.trajectory import ENDINGS, EpisodeResult

_ORDER = (episodes.c.created_at, episodes.c.episode_id)


def conditions(episode_filter: EpisodeFilter) -> list[ColumnElement[bool]]:
    """Return a filter as conditions on an episode's rows in `episodes` and `standings`."""
    texts = (
        (episodes.c.environment, episode_filter.environment),
        (episodes.c.split, episode_filter.split),
        (episodes.c.task_hash, episode_filter.task_hash),
        (episodes.c.session_id, episode_filter.session_id),
        (episodes.c.credential_id, episode_filter.credential_id),
        (standings.c.phase, episode_filter.phase),
        (standings.c.stop_reason, episode_filter.stop_reason),
    )
    found: list[ColumnElement[bool]] = [
        column == as_search_text(value) for column, value in texts if value is not None
    ]
    if episode_filter.index is not None:
        index = as_bigint(episode_filter.index)
        found.append(false() if index is None else episodes.c.task_index == index)
    if episode_filter.closed is not None:
        closed = standings.c.closed_at.is_not(None)
        found.append(closed if episode_filter.closed else ~closed)
    if episode_filter.unjudged is not None:
        unjudged = standings.c.unjudged_steps > 0
        found.append(unjudged if episode_filter.unjudged else ~unjudged)
    found += [_has_label(name, value) for name, value in episode_filter.labels.items()]
    return [*found, *_limits(episode_filter)]


def _limits(episode_filter: EpisodeFilter) -> list[ColumnElement[bool]]:
    found: list[ColumnElement[bool]] = []
    if episode_filter.since is not None:
        found.append(episodes.c.created_at >= to_microseconds(episode_filter.since))
    if episode_filter.until is not None:
        found.append(episodes.c.created_at < to_microseconds(episode_filter.until))
    if episode_filter.min_return is not None:
        found.append(standings.c.episode_return >= episode_filter.min_return)
    if episode_filter.max_return is not None:
        found.append(standings.c.episode_return <= episode_filter.max_return)
    return found


def _has_label(name: str, value: str) -> ColumnElement[bool]:
    return exists().where(
        labels.c.episode == episodes.c.key,
        labels.c.name == as_search_text(name),
        labels.c.value == as_search_text(value),
    )


def records(*also: ColumnElement[bool]) -> Select[*tuple[Any, ...]]:
    """Select episodes with their summaries."""
    return (
        select(
            episodes.c.key,
            episodes.c.created_at,
            episodes.c.episode_id,
            episodes.c.body.label("origin"),
            standings.c.body.label("summary"),
            standings.c.unjudged_steps,
            standings.c.closed_at,
        )
        .join(standings, standings.c.episode == episodes.c.key)
        .where(*also)
    )


def pages(
    episode_filter: EpisodeFilter, after: tuple[int, str] | None, limit: int, *, newest_first: bool
) -> Select[*tuple[Any, ...]]:
    """Select one page of episodes in the order of their creation.

    Args:
        after: Time and id of the last episode of the previous page.
    """
    query = records(*conditions(episode_filter)).limit(limit)
    if after is not None:
        position, boundary = tuple_(*_ORDER), tuple_(*after)
        query = query.where(position < boundary if newest_first else position > boundary)
    return query.order_by(*(column.desc() if newest_first else column.asc() for column in _ORDER))


def figures(episode_filter: EpisodeFilter) -> Select[*tuple[Any, ...]]:
    """Select statistics by environment, phase, stop reason and result."""
    rows = (
        select(
            episodes.c.environment,
            standings.c.phase,
            standings.c.stop_reason,
            standings.c.steps,
            standings.c.episode_return,
            _result().label("result"),
        )
        .select_from(episodes.join(standings, standings.c.episode == episodes.c.key))
        .where(*conditions(episode_filter))
        .subquery()
    )
    kinds = (rows.c.environment, rows.c.phase, rows.c.stop_reason, rows.c.result)
    return select(
        *kinds,
        func.count().label("episodes"),
        func.sum(rows.c.steps).label("steps"),
        func.sum(rows.c.episode_return).label("sum"),
        func.min(rows.c.episode_return).label("least"),
        func.max(rows.c.episode_return).label("greatest"),
    ).group_by(*kinds)


def _result() -> ColumnElement[str]:
    """Return `trajectory.result_of` as an expression.

    A step's reward is in a column and the summary's last reward is not: an episode was paid or charged
    exactly if one of its steps was. Only ended episodes are asked, and mostly their first steps answer.
    """
    reason = standings.c.stop_reason
    return case(
        (standings.c.unjudged_steps > 0, EpisodeResult.UNJUDGED.value),
        (reason.is_(None), EpisodeResult.LIVE.value),
        (reason == "failed", EpisodeResult.FAILED.value),
        (reason.not_in(sorted(ENDINGS)), EpisodeResult.ABANDONED.value),
        (
            exists().where(steps.c.episode == standings.c.episode, steps.c.reward.is_not(None)),
            EpisodeResult.GRADED.value,
        ),
        else_=EpisodeResult.UNGRADED.value,
    )
