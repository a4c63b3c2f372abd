"""`ors-server serve`: serves environments over HTTP, or one MCP client over standard input and output."""

import os
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ors_server.cli.command_output import MisuseError, complain, say
from ors_server.cli.data_options import DataOptions, resolve_chosen
from ors_server.cli.shell_completion import installed_names
from ors_server.model.errors import ClientError

if TYPE_CHECKING:
    from ors_server.app import App
    from ors_server.environments.definition import EnvironmentDefinition
    from ors_server.environments.loading import UnusableEnvironment

STDIO = "Standard input and output"


def _show_whole_help(context: typer.Context, *, value: bool) -> None:
    if value:
        say(context.get_help())
        raise typer.Exit


@dataclass(frozen=True)
class ServeOptions(DataOptions):
    """The options of `serve` that are not settings; `setting_flags` adds a flag for each setting."""

    references: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="REF",
            help="Environments: name, module:Class, path, or data file; by default those of the setting "
            "`environments`, else all installed ones.",
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
    reload: Annotated[
        bool,
        typer.Option(
            "--reload",
            help="For authors: reload the environments when their files change. Live sessions keep the "
            "old ones; after an error the old ones stay.",
        ),
    ] = False
    config: Annotated[
        Path | None,
        typer.Option(help="TOML file of settings.", envvar="ORS_CONFIG", exists=True, dir_okay=False),
    ] = None
    json: Annotated[bool, typer.Option("--json", help="Print one line of JSON once the server is ready.")] = (
        False
    )
    help_all: Annotated[
        bool,
        typer.Option(
            "--help-all", help="Show every flag and exit.", is_eager=True, callback=_show_whole_help
        ),
    ] = False


def serve(options: ServeOptions) -> None:
    """Serve environments to agents, evaluation harnesses and training pipelines.

    Every setting can also be in a TOML file (--config) or an environment variable (ORS_PORT for --port). API
    keys are not options, because other users can read command lines: use --api-keys-file or ORS_API_KEYS.
    """
    from ors_server.app import create_app
    from ors_server.model import logs
    from ors_server.model.settings import load_settings

    settings = load_settings(options.config, **settings_of(options))
    host = None if settings.slot.is_alone else settings.slot.name
    logs.configure(form=settings.log_format, level=settings.log_level, host=host)
    if (settings.workers > 1 or settings.engine == "ray") and settings.host_slot is None:
        if options.stdio or options.reload:
            raise MisuseError("--workers is for a server over HTTP without --reload: leave out one of them")
        from ors_server.cli.serving_workers import serve_on_ray, serve_with_workers

        serve_hosts = serve_on_ray if settings.engine == "ray" else serve_with_workers
        serve_hosts(settings, as_json=options.json)
        return
    chosen = choose(options.references or settings.environments)
    references = resolve_chosen(chosen, options)
    if options.stdio and options.reload:
        raise MisuseError("--reload is for a server over HTTP: leave out --stdio or --reload")
    if options.stdio:
        with _keep_stdout_clean():
            app = create_app(references, settings)
        _serve_over_stdio(app, options.episode)
    else:
        from ors_server.cli.listening import listen
        from ors_server.cli.reloading import Reloader

        app = create_app(references, settings)
        reloader = Reloader(app, list(chosen), options) if options.reload else None
        listen(app, as_json=options.json, reloader=reloader)


@contextmanager
def _keep_stdout_clean() -> Generator[None]:
    """Send what environments print while they load to standard error: stdout is the protocol's."""
    sys.stdout.flush()
    stdout = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(stdout, 1)
        os.close(stdout)


def _serve_over_stdio(app: "App", episode: str | None) -> None:
    """Serve an `environment/split/index`, or the lobby without one, until the client closes standard input.

    Raises:
        MisuseError: If the episode has another form.
    """
    import anyio

    from ors_server.doors.mcp.stdio_server import chosen_episode, serve_stdio

    try:
        order = chosen_episode(episode, os.environ)
    except ClientError as error:
        raise MisuseError(str(error)) from error

    async def run() -> None:
        async with app.running():
            await serve_stdio(app.manager, app.keyring, order)

    anyio.run(run)


def settings_of(options: ServeOptions) -> dict[str, Any]:
    """Return the settings that were given as flags, by name."""
    own = {field.name for field in fields(ServeOptions)}
    return {
        name: value for name, value in vars(options).items() if name not in own and value not in (None, [])
    }


def choose(
    references: list[str] | None, unusable: "list[UnusableEnvironment] | None" = None
) -> "Mapping[str, EnvironmentDefinition | None]":
    """Return the references, or else all installed environments that can be loaded, which then are loaded.

    Args:
        unusable: Takes the installed environments that are left out; by default they are printed.
    """
    if references:
        return dict.fromkeys(references)
    from ors_server.environments.loading import usable_environments

    left_out: list[UnusableEnvironment] = [] if unusable is None else unusable
    usable = usable_environments(left_out.append)
    if unusable is None:
        _report_unusable(left_out)
    return usable


def _report_unusable(unusable: "list[UnusableEnvironment]") -> None:
    """Print a line for each broken environment, and one for all whose requirements are not installed."""
    for environment in unusable:
        if not environment.is_missing_requirement:
            complain(str(environment))
    missing = [environment.name for environment in unusable if environment.is_missing_requirement]
    if missing:
        complain(f"not installed: {', '.join(missing)} (optional); ors-server doctor shows how", style="dim")
