"""`ors-server serve`: serves environments over both doors, or one client over standard input and output."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from ors_server.cli.completion import installed_names
from ors_server.visibility import Visibility

STDIO = "Standard input and output"
LISTENING = "Address"
REWARDS = "Rewards"
LIMITS = "Limits"
ACCESS = "Access"
LOGS = "Logs"
ISOLATION = "Isolation"
RECORD = "Record"


@dataclass(frozen=True)
class ServeOptions:
    """What `serve` can be told; a field that is named as a setting wins over the setting's other sources."""

    references: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="REF",
            help="Environments: name, module:Class, or path; by default those of the setting `environments`, "
            "else all installed ones.",
            show_default=False,
            autocompletion=installed_names,
        ),
    ] = None
    stdio: Annotated[
        bool,
        typer.Option(
            "--stdio", help="Serve one MCP client over standard input and output.", rich_help_panel=STDIO
        ),
    ] = False
    episode: Annotated[
        str | None,
        typer.Option(
            metavar="ENVIRONMENT/SPLIT/INDEX",
            help="With --stdio: play this task instead of opening the lobby.",
            envvar="ORS_EPISODE",
            rich_help_panel=STDIO,
        ),
    ] = None
    config: Annotated[
        Path | None,
        typer.Option(help="TOML file of settings.", envvar="ORS_CONFIG", exists=True, dir_okay=False),
    ] = None
    json: Annotated[bool, typer.Option("--json", help="Print one line of JSON once the server is ready.")] = (
        False
    )

    host: Annotated[
        str | None,
        typer.Option(
            help="Address to bind to; anything but loopback needs API keys.",
            show_default="127.0.0.1",
            rich_help_panel=LISTENING,
        ),
    ] = None
    port: Annotated[
        int | None,
        typer.Option(help="TCP port; 0 takes a free one.", show_default="8080", rich_help_panel=LISTENING),
    ] = None

    api_keys_file: Annotated[
        Path | None,
        typer.Option(help="TOML file of API keys; docs/serving.md shows one.", rich_help_panel=ACCESS),
    ] = None
    attempts_per_task: Annotated[
        int | None,
        typer.Option(help="Episodes of a task that an agent's key may start.", rich_help_panel=ACCESS),
    ] = None
    visibility: Annotated[
        Visibility | None,
        typer.Option(help="What agents see of rewards.", show_default="negotiated", rich_help_panel=REWARDS),
    ] = None
    emit: Annotated[
        str | None,
        typer.Option(
            metavar="dense|final",
            help="Pay rewards with each step (dense) or at the end (final), whatever environments say.",
            rich_help_panel=REWARDS,
        ),
    ] = None
    public_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="URL under which clients reach the server through a proxy; agents' URLs begin with it.",
            rich_help_panel=LISTENING,
        ),
    ] = None
    allowed_hosts: Annotated[
        list[str] | None,
        typer.Option(help="A Host that is accepted beside loopback; repeatable.", rich_help_panel=ACCESS),
    ] = None
    allowed_origins: Annotated[
        list[str] | None,
        typer.Option(help="An Origin that is accepted beside loopback; repeatable.", rich_help_panel=ACCESS),
    ] = None

    sandbox: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="What isolates agents' commands: auto, bubblewrap, docker, landlock or none.",
            show_default="auto",
            rich_help_panel=ISOLATION,
        ),
    ] = None
    docker_image: Annotated[
        str | None,
        typer.Option(
            help="Image of sessions' containers; with it, auto tries Docker after bubblewrap.",
            rich_help_panel=ISOLATION,
        ),
    ] = None
    docker_host: Annotated[
        str | None,
        typer.Option(
            help="Where the Docker engine listens; as in DOCKER_HOST by default.", rich_help_panel=ISOLATION
        ),
    ] = None
    allow_unsandboxed: Annotated[
        bool | None,
        typer.Option(
            "--allow-unsandboxed",
            help="Run agents' commands with no isolation where nothing better works.",
            rich_help_panel=ISOLATION,
        ),
    ] = None
    allow_visible_answers: Annotated[
        bool | None,
        typer.Option(
            "--allow-visible-answers",
            help="Serve environments although agents can read their source, and the answers in it.",
            rich_help_panel=ISOLATION,
        ),
    ] = None
    min_isolation: Annotated[
        int | None,
        typer.Option(
            help="Least level that is accepted: 3 namespaces, 2 rules and own uids, 1 rules.",
            show_default="1",
            rich_help_panel=ISOLATION,
        ),
    ] = None

    max_sessions: Annotated[
        int | None, typer.Option(help="Live sessions in all.", show_default="10000", rich_help_panel=LIMITS)
    ] = None
    max_sessions_per_environment: Annotated[
        int | None, typer.Option(help="Live sessions of one environment.", rich_help_panel=LIMITS)
    ] = None
    max_sessions_per_credential: Annotated[
        int | None, typer.Option(help="Live sessions that one API key created.", rich_help_panel=LIMITS)
    ] = None
    idle_seconds: Annotated[
        float | None,
        typer.Option(
            help="Seconds without a request after which a session expires.",
            show_default="900",
            rich_help_panel=LIMITS,
        ),
    ] = None
    reap_seconds: Annotated[
        float | None,
        typer.Option(
            help="Seconds between two looks for expired sessions.", show_default="5", rich_help_panel=LIMITS
        ),
    ] = None
    max_body_bytes: Annotated[
        int | None,
        typer.Option(help="Most bytes of one request body.", show_default="4194304", rich_help_panel=LIMITS),
    ] = None
    max_header_bytes: Annotated[
        int | None,
        typer.Option(help="Most bytes of one request's head.", show_default="65536", rich_help_panel=LIMITS),
    ] = None
    header_seconds: Annotated[
        float | None,
        typer.Option(
            help="Seconds within which a request's headers are complete.",
            show_default="10",
            rich_help_panel=LIMITS,
        ),
    ] = None
    body_seconds: Annotated[
        float | None,
        typer.Option(
            help="Seconds for which a request's body may come at less than 1 KiB in all.",
            show_default="30",
            rich_help_panel=LIMITS,
        ),
    ] = None
    max_connections: Annotated[
        int | None,
        typer.Option(help="Open connections in all.", show_default="10000", rich_help_panel=LIMITS),
    ] = None
    max_connections_per_address: Annotated[
        int | None,
        typer.Option(
            help="Open connections from one address, or one /64 of IPv6.",
            show_default="4096",
            rich_help_panel=LIMITS,
        ),
    ] = None
    max_output_bytes: Annotated[
        int | None,
        typer.Option(help="Most bytes of one tool output.", show_default="8388608", rich_help_panel=LIMITS),
    ] = None
    sse_ping_seconds: Annotated[
        float | None,
        typer.Option(
            help="Seconds between two keep-alive comments of an event stream.",
            show_default="10",
            rich_help_panel=LIMITS,
        ),
    ] = None
    teardown_seconds: Annotated[
        float | None,
        typer.Option(
            help="Seconds that an environment's teardown may take.", show_default="60", rich_help_panel=LIMITS
        ),
    ] = None
    store: Annotated[
        str | None,
        typer.Option(
            metavar="PATH|URL",
            help="Where the record is kept: a SQLite file, postgresql://..., or memory; episodes.db in the "
            "user's data folder by default.",
            rich_help_panel=RECORD,
        ),
    ] = None
    durability: Annotated[
        str | None,
        typer.Option(
            metavar="step|batch|none",
            help="What survives a crash: all that was answered (step), all but the last quarter of a second "
            "(batch), or that without waiting for the disk (none).",
            show_default="step",
            rich_help_panel=RECORD,
        ),
    ] = None
    store_blob_bytes: Annotated[
        int | None,
        typer.Option(
            help="Bytes beyond which a block is kept apart, once for all steps that show it.",
            show_default="65536",
            rich_help_panel=RECORD,
        ),
    ] = None
    store_write_seconds: Annotated[
        float | None,
        typer.Option(
            help="Seconds for which a write is tried before the call that waits for it fails.",
            show_default="10",
            rich_help_panel=RECORD,
        ),
    ] = None
    retain_episodes: Annotated[
        int | None,
        typer.Option(
            help="Closed episodes whose records are kept, the oldest going first; all by default, 10,000 in "
            "memory.",
            rich_help_panel=RECORD,
        ),
    ] = None
    retain_days: Annotated[
        float | None,
        typer.Option(
            help="Days for which a record is kept after its last change; for ever by default.",
            rich_help_panel=RECORD,
        ),
    ] = None
    worker_threads: Annotated[
        int | None,
        typer.Option(help="Threads for blocking tools and hooks.", show_default="64", rich_help_panel=LIMITS),
    ] = None
    gradings_at_once: Annotated[
        int | None,
        typer.Option(
            help="Gradings that run programs at once, in turns by environment and credential; two per "
            "processor by default. The others wait, and no clock runs for them.",
            rich_help_panel=LIMITS,
        ),
    ] = None

    log_format: Annotated[
        str | None,
        typer.Option(
            metavar="console|json",
            help="How log lines look.",
            show_default="console",
            rich_help_panel=LOGS,
        ),
    ] = None
    log_level: Annotated[
        str | None,
        typer.Option(
            metavar="debug|info|warning|error",
            help="Least severity that is logged.",
            show_default="info",
            rich_help_panel=LOGS,
        ),
    ] = None


def serve(options: ServeOptions) -> None:
    """Serve environments to agents, evaluation harnesses and training pipelines.

    Every setting can also stand in a TOML file (--config) or an environment variable (ORS_PORT for --port).
    API keys never stand on the command line: use --api-keys-file or ORS_API_KEYS.
    """
    from ors_server import logs
    from ors_server.app import create_app
    from ors_server.settings import load_settings

    settings = load_settings(options.config, **settings_of(options))
    logs.configure(form=settings.log_format, level=settings.log_level)
    references = choose(options.references or settings.environments)
    if options.stdio:
        from ors_server.cli.serving_stdio import keep_stdout_clean, serve_over_stdio

        with keep_stdout_clean():
            app = create_app(references, settings)
        serve_over_stdio(app, options.episode)
    else:
        from ors_server.cli.listening import listen

        listen(create_app(references, settings), as_json=options.json)


def settings_of(options: ServeOptions) -> dict[str, Any]:
    """Return the settings that were given as flags, by name.

    Args:
        options: What `serve` was told.
    """
    others = {"references", "stdio", "episode", "config", "json"}
    return {
        name: value for name, value in vars(options).items() if name not in others and value not in (None, [])
    }


def choose(references: list[str] | None) -> list[str]:
    """Return the environments that were named, or else all installed ones that can be loaded.

    Args:
        references: What was named.
    """
    if references:
        return references
    from ors_server.authoring.loading import usable_environments
    from ors_server.cli.output import complain

    return usable_environments(complain)
