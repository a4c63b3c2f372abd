"""The control API's table of routes: the one place that says what exists, who may, and how it looks."""

from http import HTTPStatus

from ors_server.transports import control_models as m
from ors_server.transports import control_models_episodes as me
from ors_server.transports.access import Role
from ors_server.transports.control_calls import CallAnswer, CancelAnswer
from ors_server.transports.control_episodes import EpisodeHandlers
from ors_server.transports.control_handlers import ControlHandlers
from ors_server.transports.control_requests import (
    CallBody,
    ForkBody,
    PageQuery,
    SessionOrderBody,
    SessionsQuery,
)
from ors_server.transports.control_requests_episodes import EpisodeSelection, EpisodesQuery, TailQuery
from ors_server.transports.control_routes import Operation
from ors_server.wire import ToolListing

ENVIRONMENT = "/environments/{name}"
TASKS = ENVIRONMENT + "/splits/{split}/tasks"
SESSION = "/sessions/{session_id}"
EPISODE = "/episodes/{episode}"
SNAPSHOT = SESSION + "/snapshots/{snapshot_id}"


def make_table(handlers: ControlHandlers, episodes: EpisodeHandlers) -> tuple[Operation, ...]:
    """Return every route; of two that fit a path, the first one counts.

    Args:
        handlers: Who answers.
        episodes: Who answers what is asked of the record.
    """
    return (
        *_server(handlers),
        *_environments(handlers),
        *_sessions(handlers),
        *_play(handlers),
        *_episodes(episodes),
    )


def _server(h: ControlHandlers) -> tuple[Operation, ...]:
    return (
        Operation("GET", "/health", h.get_health, "Whether the process answers", m.Health, role=None),
        Operation(
            "GET",
            "/ready",
            h.get_readiness,
            "Whether new sessions are welcome",
            m.Readiness,
            role=None,
            failures=(503,),
        ),
        Operation("GET", "/version", h.get_version, "Which server this is", m.Version, role=None),
        Operation("GET", "/openapi.json", h.get_description, "This description", m.Description, role=None),
        Operation(
            "GET", "/settings", h.get_settings, "The settings in force", m.SettingsView, role=Role.ADMIN
        ),
        Operation(
            "POST",
            "/shutdown",
            h.shut_down,
            "Stop the server after the requests that run",
            m.Stopping,
            role=Role.ADMIN,
            status=HTTPStatus.ACCEPTED,
            failures=(404,),
        ),
    )


def _environments(h: ControlHandlers) -> tuple[Operation, ...]:
    return (
        Operation("GET", "/environments", h.list_environments, "What is served", m.EnvironmentList),
        Operation(
            "GET",
            ENVIRONMENT,
            h.get_environment,
            "An environment's policy, splits and tools",
            m.EnvironmentView,
            failures=(404,),
        ),
        Operation(
            "GET",
            TASKS,
            h.list_tasks,
            "A slice of a split's tasks",
            m.TaskPage,
            query=PageQuery,
            failures=(404, 500),
        ),
        Operation("GET", TASKS + "/{index}", h.get_task, "One task", m.TaskView, failures=(404, 500)),
    )


def _sessions(h: ControlHandlers) -> tuple[Operation, ...]:
    return (
        Operation(
            "POST",
            "/sessions",
            h.create_session,
            "Make a session",
            m.CreatedSession,
            body=SessionOrderBody,
            status=HTTPStatus.CREATED,
            failures=(404, 409, 429, 500, 503),
        ),
        Operation(
            "GET",
            "/sessions",
            h.list_sessions,
            "Live sessions",
            m.SessionPage,
            query=SessionsQuery,
            failures=(404,),
        ),
        Operation(
            "GET", SESSION, h.get_session, "A session's state and totals", m.SessionView, failures=(404,)
        ),
        Operation(
            "DELETE",
            SESSION,
            h.delete_session,
            "End a session; answers with its final figures",
            m.SessionView,
            failures=(404,),
        ),
        Operation(
            "GET",
            SESSION + "/steps",
            h.list_steps,
            "A slice of a session's steps, also after its end",
            m.StepPage,
            query=PageQuery,
            failures=(404, 503),
        ),
        *_copies(h),
        Operation(
            "POST",
            SESSION + "/token",
            h.mint_token,
            "What an agent needs to play the session",
            m.AgentAccess,
            failures=(404,),
        ),
    )


def _copies(h: ControlHandlers) -> tuple[Operation, ...]:
    return (
        Operation(
            "POST",
            SESSION + "/snapshots",
            h.take_snapshot,
            "Keep the session's files and memory as they are between two calls",
            m.SnapshotView,
            status=HTTPStatus.CREATED,
            failures=(404, 409, 410, 429, 500, 503),
        ),
        Operation(
            "GET", SESSION + "/snapshots", h.list_snapshots, "What was kept", m.SnapshotList, failures=(404,)
        ),
        Operation(
            "DELETE",
            SNAPSHOT,
            h.discard_snapshot,
            "Discard a snapshot; answers with those that are left",
            m.SnapshotList,
            failures=(404,),
        ),
        Operation(
            "POST",
            SNAPSHOT + "/restore",
            h.restore_snapshot,
            "Bring files and memory back; steps and sums stay, for they were paid",
            m.SnapshotView,
            failures=(404, 409, 410, 500, 503),
        ),
        Operation(
            "POST",
            SESSION + "/fork",
            h.fork_session,
            "Make copies of a live session, each of which goes on by itself; all of them, or none",
            m.ForkedSessions,
            body=ForkBody,
            status=HTTPStatus.CREATED,
            failures=(404, 409, 410, 429, 500, 503),
        ),
    )


def _play(h: ControlHandlers) -> tuple[Operation, ...]:
    return (
        Operation(
            "GET",
            SESSION + "/prompt",
            h.get_prompt,
            "The prompt, once setup has ended",
            m.PromptView,
            role=Role.AGENT,
            failures=(404, 410, 500),
        ),
        Operation(
            "GET",
            SESSION + "/messages",
            h.get_messages,
            "The prompt as a conversation, once setup has ended",
            m.MessagesView,
            role=Role.AGENT,
            failures=(404, 410, 500),
        ),
        Operation(
            "GET",
            SESSION + "/tools",
            h.get_tools,
            "Every tool that the session offers",
            ToolListing,
            role=Role.AGENT,
            failures=(404, 410, 500),
        ),
        Operation(
            "POST",
            SESSION + "/calls",
            h.call_tool,
            "Call a tool and wait for its result",
            CallAnswer,
            role=Role.AGENT,
            body=CallBody,
            failures=(404, 410, 500, 503),
        ),
        Operation(
            "POST",
            SESSION + "/calls/{call_id}/cancel",
            h.cancel_call,
            "Stop a running call",
            CancelAnswer,
            role=Role.AGENT,
            failures=(404,),
        ),
    )


def _episodes(h: EpisodeHandlers) -> tuple[Operation, ...]:
    return (
        Operation(
            "GET",
            "/episodes",
            h.list_episodes,
            "Episodes on record, live and ended",
            me.EpisodePage,
            query=EpisodesQuery,
            failures=(404, 503),
        ),
        Operation(
            "GET",
            "/episodes/totals",
            h.sum_up_episodes,
            "Figures over episodes on record",
            me.EpisodeTotalsView,
            query=EpisodeSelection,
            failures=(503,),
        ),
        Operation(
            "GET",
            EPISODE,
            h.get_episode,
            "An episode in full, but for its steps",
            me.EpisodeRecordView,
            failures=(404, 409, 503),
        ),
        Operation(
            "GET",
            EPISODE + "/steps",
            h.list_episode_steps,
            "A slice of an episode's steps",
            me.EpisodeStepPage,
            query=PageQuery,
            failures=(404, 409, 503),
        ),
        Operation(
            "GET",
            EPISODE + "/events",
            h.follow_episode,
            "An episode's steps, then each new one as it comes, until the record is closed",
            m.StepView,
            query=TailQuery,
            failures=(404, 409, 503),
            is_stream=True,
        ),
    )
