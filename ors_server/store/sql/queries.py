"""What a filter means in SQL."""

from typing import Any

from sqlalchemy import ColumnElement, Select, exists, false, func, select, tuple_

from ors_server.store.base import EpisodeFilter
from ors_server.store.sql.schema import episodes, labels, standings
from ors_server.store.sql.stamps import searchable, stamp, whole

_ORDER = (episodes.c.created_at, episodes.c.episode_id)


def conditions(wanted: EpisodeFilter) -> list[ColumnElement[bool]]:
    """Return what must hold of an episode's two rows.

    Args:
        wanted: Which episodes are meant.
    """
    texts = (
        (episodes.c.environment, wanted.environment),
        (episodes.c.split, wanted.split),
        (episodes.c.task_hash, wanted.task_hash),
        (episodes.c.session_id, wanted.session_id),
        (episodes.c.credential_id, wanted.credential_id),
        (standings.c.phase, wanted.phase),
        (standings.c.stop_reason, wanted.stop_reason),
    )
    found: list[ColumnElement[bool]] = [
        column == searchable(value) for column, value in texts if value is not None
    ]
    if wanted.index is not None:
        index = whole(wanted.index)
        found.append(false() if index is None else episodes.c.task_index == index)
    if wanted.closed is not None:
        closed = standings.c.closed_at.is_not(None)
        found.append(closed if wanted.closed else ~closed)
    found += [_bears(name, value) for name, value in wanted.labels.items()]
    return [*found, *_limits(wanted)]


def _limits(wanted: EpisodeFilter) -> list[ColumnElement[bool]]:
    found: list[ColumnElement[bool]] = []
    if wanted.since is not None:
        found.append(episodes.c.created_at >= stamp(wanted.since))
    if wanted.until is not None:
        found.append(episodes.c.created_at < stamp(wanted.until))
    if wanted.min_return is not None:
        found.append(standings.c.episode_return >= wanted.min_return)
    if wanted.max_return is not None:
        found.append(standings.c.episode_return <= wanted.max_return)
    return found


def _bears(name: str, value: str) -> ColumnElement[bool]:
    return exists().where(
        labels.c.episode == episodes.c.key,
        labels.c.name == searchable(name),
        labels.c.value == searchable(value),
    )


def records(*also: ColumnElement[bool]) -> Select[*tuple[Any, ...]]:
    """Select episodes with their figures.

    Args:
        *also: What must hold of them.
    """
    return (
        select(
            episodes.c.key,
            episodes.c.created_at,
            episodes.c.episode_id,
            episodes.c.body.label("origin"),
            standings.c.body.label("summary"),
            standings.c.closed_at,
        )
        .join(standings, standings.c.episode == episodes.c.key)
        .where(*also)
    )


def pages(
    wanted: EpisodeFilter, after: tuple[int, str] | None, limit: int, *, newest_first: bool
) -> Select[*tuple[Any, ...]]:
    """Select one page of episodes in the order of their creation.

    Args:
        wanted: Which ones.
        after: Time and id of the last episode of the page before.
        limit: Most episodes.
        newest_first: Whether the newest one comes first.
    """
    query = records(*conditions(wanted)).limit(limit)
    if after is not None:
        place, border = tuple_(*_ORDER), tuple_(*after)
        query = query.where(place < border if newest_first else place > border)
    return query.order_by(*(column.desc() if newest_first else column.asc() for column in _ORDER))


def figures(wanted: EpisodeFilter) -> Select[*tuple[Any, ...]]:
    """Select sums over episodes, apart by environment, phase and stop reason.

    Args:
        wanted: Which ones.
    """
    kinds = (episodes.c.environment, standings.c.phase, standings.c.stop_reason)
    value = standings.c.episode_return
    return (
        select(
            *kinds,
            func.count().label("episodes"),
            func.sum(standings.c.steps).label("steps"),
            func.sum(value).label("sum"),
            func.min(value).label("least"),
            func.max(value).label("greatest"),
        )
        .select_from(episodes.join(standings, standings.c.episode == episodes.c.key))
        .where(*conditions(wanted))
        .group_by(*kinds)
    )
