"""The text that a server prints once it can be reached: its URLs, environments, and lines to paste."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio

from ors_server.cli.command_output import say, say_json
from ors_server.installation import find_activation
from ors_server.model.errors import OrsServerError
from ors_server.sandboxes.isolation_report import Strength
from ors_server.sessions.session_services import NO_SANDBOXES, Sandboxes
from ors_server.store.location import MEMORY, parse_location

if TYPE_CHECKING:
    from ors_server.app import App

COUNT_SECONDS = 5.0
"""Seconds that counting an environment's tasks may take; then their number is unknown."""
_WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  (compared with, not bound to)


@dataclass(frozen=True, slots=True)
class Served:
    """One environment and the size of its splits."""

    name: str
    version: str
    splits: dict[str, int | None]
    """Split name -> number of tasks; `None` where it is not known."""


@dataclass(frozen=True, slots=True)
class Announcement:
    """The content of the announcement."""

    url: str
    has_keys: bool
    environments: Sequence[Served]
    sandbox: Sandboxes = NO_SANDBOXES
    """The sandbox backend, or why it is missing."""
    record: str = MEMORY
    """Where the record is kept, without a password."""
    has_console: bool = True
    """Whether the pages for browsers are served."""
    is_public: bool = False
    """Whether every caller may play without a key."""
    activation: str = ""
    """What a shell needs so that it finds the command `ors-server`; empty if it does."""

    def as_json(self) -> dict[str, Any]:
        """Render the announcement with JSON types."""
        console = {"console": f"{self.url}/console"} if self.has_console else {}
        return {
            "url": self.url,
            "doors": {"ors": self.url, "mcp": f"{self.url}/mcp", "control": f"{self.url}/_ors", **console},
            "environments": [
                {"name": served.name, "version": served.version, "splits": served.splits}
                for served in self.environments
            ],
            "sandbox": self.sandbox.tier,
            "record": self.record,
        }


async def survey(app: "App", host: str, port: int) -> Announcement:
    """Return the announcement of a running application that is bound to an address."""
    name = _WILDCARDS.get(host, host)
    scheme = "http" if app.settings.tls_cert is None else "https"
    url = f"{scheme}://{f'[{name}]' if ':' in name else name}:{port}"
    environments: list[Served] = []
    for definition in app.manager.environments.values():
        splits: dict[str, int | None] = {split.name: None for split in definition.splits}
        with anyio.move_on_after(COUNT_SECONDS):
            for split in splits:
                try:
                    splits[split] = await definition.tasks.num_tasks(split)
                except OrsServerError:
                    continue
        environments.append(Served(definition.name, definition.version, splits))
    record = parse_location(app.settings.record).display_name
    return Announcement(
        url,
        not app.keyring.is_open,
        environments,
        app.sandboxes,
        record,
        app.settings.console,
        is_public=app.settings.public,
        activation=find_activation(),
    )


def announce(announcement: Announcement, *, as_json: bool) -> None:
    """Print the announcement for a person, or as one line of JSON."""
    if as_json:
        say_json(announcement.as_json())
        return
    say("\n".join(lines_of(announcement)))


def announce_host(announcement: Announcement) -> None:
    """Print the announcement of a host for the supervisor: with the text for people, which it may print."""
    say_json({**announcement.as_json(), "text": lines_of(announcement)})


def lines_of(announcement: Announcement) -> list[str]:
    """Render the announcement for a person; the lines to paste are never broken."""
    url = announcement.url
    harness = [
        f"  harness  {_client_variables(announcement)} python your_evaluation.py",
        f"  trainer  {_client_variables(announcement)} python your_training.py",
        f'           with OpenRewardSpec("{url}", num_tasks=64) of trl.experimental.openreward',
    ]
    environments: list[str] = []
    for served in announcement.environments:
        sizes = (f"{name} {'?' if count is None else count}" for name, count in served.splits.items())
        environments.append(f"  {served.name}  {', '.join(sizes)} tasks")
    mcp_server: dict[str, Any] = {"type": "http", "url": f"{url}/mcp"}
    if announcement.has_keys and not announcement.is_public:
        mcp_server["headers"] = {"X-API-Key": "YOUR-KEY"}
    note = ["", "Public: every caller who reaches the server may play, without a key."]
    return [
        "Doors",
        f"  ORS      {url}",
        f"  MCP      {url}/mcp",
        f"  control  {url}/_ors",
        *([f"  console  {url}/console  (open it in a browser)"] if announcement.has_console else []),
        "",
        "Environments",
        *environments,
        *_isolation(announcement.sandbox),
        "",
        "Record",
        f"  {_place(announcement.record)}",
        "",
        "To paste",
        f"  agent    {json.dumps({'mcpServers': {'ors': mcp_server}})}",
        *([] if announcement.is_public else harness),
        "  author   ors-server new my_environment",
        *([f"  shell    {announcement.activation}"] if announcement.activation else []),
        *(note if announcement.is_public else []),
        "",
        "Stop with Ctrl-C.",
    ]


def _isolation(sandbox: Sandboxes) -> list[str]:
    if sandbox is NO_SANDBOXES:
        return []
    if sandbox.report is None:
        return ["", "Sandbox", f"  none: {sandbox.refusal}", "  Environments that need one cannot be played."]
    report = sandbox.report
    isolated = (f"{resource} ({means})" for resource, means in report.isolated.items())
    return [
        "",
        "Sandbox",
        f"  {report.backend}, level {int(report.strength)} of {int(max(Strength))}",
        f"  isolates {', '.join(isolated) or 'nothing'}",
        *(f"  not held: {gap}" for gap in report.gaps),
    ]


def _place(record: str) -> str:
    return "in memory: it ends with the server" if record == MEMORY else record


def _client_variables(announcement: Announcement) -> str:
    url = announcement.url
    key = " OPENREWARD_API_KEY=YOUR-KEY" if announcement.has_keys else ""
    return f"OPENREWARD_API_URL={url} OPENREWARD_SESSION_URL={url}{key}"
