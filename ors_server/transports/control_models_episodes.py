"""What the control API gives of the record: episodes, their steps, and figures over many of them."""

from dataclasses import asdict
from datetime import datetime
from typing import Any, Self

from ors_server.store.base import EpisodeTotals
from ors_server.trajectory import EpisodeOrigin, EpisodeRecord, EpisodeSummary, Fork, Step, Transition
from ors_server.transports.control_models import Answer, EpisodeView, ForkView, StepView
from ors_server.wire import Block, JSONObject


class EpisodeEntry(Answer):
    """An episode in a list."""

    episode_id: str
    session_id: str
    environment: str
    environment_version: str
    server_version: str
    task_hash: str
    """SHA-256 of the task's canonical JSON."""
    split: str | None
    index: int | None
    created_at: datetime
    credential_id: str | None
    """Id of the key that created the session; never the key."""
    visibility: str
    """What the agent saw of rewards."""
    toolset: str | None
    seed: int
    labels: dict[str, str]
    packages: dict[str, str]
    """Versions of Python and of the distribution that the environment came from."""
    forked_from: ForkView | None
    closed: bool
    """Whether the session is gone, so that nothing will be added."""
    episode: EpisodeView
    """The latest figures."""

    @classmethod
    def of(cls, record: EpisodeRecord) -> Self:
        """Show a record.

        Args:
            record: The record.
        """
        return cls.model_validate(_fields_of(record))


class TransitionView(Answer):
    """One move of an episode from one phase to another."""

    event: str
    phase: str
    """The phase after it."""
    stop_reason: str | None
    at: datetime


class EpisodeRecordView(EpisodeEntry):
    """An episode in full, but for its steps."""

    task_spec: JSONObject
    policy: JSONObject
    """The rules in force, overrides included."""
    sandbox: JSONObject | None
    """What isolated the agent's commands; `None` where the environment ran none."""
    prompt: list[Block] | None
    """What the agent was told; `None` if nobody asked for it."""
    transitions: list[TransitionView]
    """Every move, in order."""

    def as_record(self) -> EpisodeRecord:
        """Return the record that is shown, exactly."""
        return EpisodeRecord(
            origin=EpisodeOrigin(
                **{name: getattr(self, name) for name in _OF_ORIGIN},
                task_spec=self.task_spec,
                policy=self.policy,
                sandbox=self.sandbox,
                forked_from=None if self.forked_from is None else Fork(**dict(self.forked_from)),
            ),
            summary=EpisodeSummary(**dict(self.episode)),
            prompt=None if self.prompt is None else tuple(self.prompt),
            transitions=tuple(Transition(**dict(move)) for move in self.transitions),
            is_closed=self.closed,
        )


class EpisodePage(Answer):
    """Episodes on record."""

    episodes: list[EpisodeEntry]
    next_cursor: str | None
    """Leads to the next page; `None` on the last one."""


class EpisodeStepPage(Answer):
    """A slice of an episode's steps."""

    episode_id: str
    total: int
    """How many steps the episode has so far."""
    steps: list[StepView]


class EpisodeTotalsView(Answer):
    """Figures over a set of episodes."""

    episodes: int
    steps: int
    mean_return: float | None
    """`None` without episodes; likewise the two that follow."""
    least_return: float | None
    greatest_return: float | None
    by_environment: dict[str, int]
    """Episodes by environment."""
    by_phase: dict[str, int]
    by_stop_reason: dict[str, int]
    """Those that are over, by reason."""

    @classmethod
    def of(cls, totals: EpisodeTotals) -> Self:
        """Show figures.

        Args:
            totals: The figures.
        """
        return cls.model_validate({name: getattr(totals, name) for name in cls.model_fields})


def show_figures(summary: EpisodeSummary) -> EpisodeView:
    """Show the figures of an episode.

    Args:
        summary: The figures.
    """
    fields = EpisodeView.model_fields.items()
    return EpisodeView.model_validate({each.alias or name: getattr(summary, name) for name, each in fields})


def step_of(view: StepView) -> Step:
    """Return the step that is shown, exactly.

    Args:
        view: How the control API shows it.
    """
    fields: dict[str, Any] = dict(view)
    fields["blocks"] = tuple(view.blocks)
    return Step(**fields)


_OF_ORIGIN = (
    "session_id",
    "environment",
    "environment_version",
    "server_version",
    "task_hash",
    "split",
    "index",
    "created_at",
    "credential_id",
    "episode_id",
    "seed",
    "visibility",
    "toolset",
    "labels",
    "packages",
)


def _fields_of(record: EpisodeRecord) -> dict[str, Any]:
    origin = record.origin
    return {
        **{name: getattr(origin, name) for name in (*_OF_ORIGIN, "task_spec", "policy", "sandbox")},
        "forked_from": None if origin.forked_from is None else asdict(origin.forked_from),
        "closed": record.is_closed,
        "episode": show_figures(record.summary),
        "prompt": None if record.prompt is None else list(record.prompt),
        "transitions": [
            {name: getattr(move, name) for name in TransitionView.model_fields} for move in record.transitions
        ],
    }
