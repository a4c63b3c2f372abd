"""`ors-server replay`: plays recorded episodes again and compares the results."""

import json
import os
from collections import Counter
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from ors_server.cli.command_output import say
from ors_server.cli.exit_status import ExitStatus
from ors_server.cli.recorded_options import RecordedOptions, open_recorded
from ors_server.model.printable import clean

if TYPE_CHECKING:
    from ors_server.replaying.replay import ReplayRequest
    from ors_server.replaying.replay_result import EpisodeReplay
    from ors_server.replaying.stage import Stage

_FROM_ENVIRONMENT = "env:"


@dataclass(frozen=True, kw_only=True)
class ReplayOptions(RecordedOptions):
    """Options of `replay`."""

    against: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Replay at a running server; a trainer's key is read from ORS_API_KEY."
        ),
    ] = None
    environment: Annotated[
        str | None,
        typer.Option(
            metavar="REF",
            help="The environment to play: name, module:Class, or path; with --against a name that is "
            "served there. The installed one of the record's name by default.",
            show_default=False,
        ),
    ] = None
    secret: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=env:VARIABLE",
            help="A secret that the environment needs, from an environment variable; never recorded. "
            "Repeatable.",
        ),
    ] = None
    volatile: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN",
            help="A regular expression of text that may differ, besides those that the environment declares; "
            "repeatable.",
        ),
    ] = None
    json: Annotated[bool, typer.Option("--json", help="Print one object per episode.")] = False


def replay(options: ReplayOptions) -> None:
    """Play recorded episodes again, call by call, and compare the results with the record.

    Each episode is played in a new session of its task, with its seed, rules, toolset and visibility.
    Prompts, texts, pictures, rewards and ends are compared; times are not. The status is 0 if all are
    identical, 1 if something differs or could not be replayed, 2 if the command line is wrong.
    """
    import anyio

    verdicts: Counter[str] = Counter()
    anyio.run(_replay, options, read_request(options), verdicts)
    is_different = bool(set(verdicts) - {"identical"})
    if not options.json:
        counts = ", ".join(f"{count} {verdict}" for verdict, count in sorted(verdicts.items()))
        total = verdicts.total()
        style = "bad" if is_different else "good" if total else ""
        say(f"{total} episode{'' if total == 1 else 's'}: {counts}" if total else "no episodes", style=style)
    if is_different:
        raise typer.Exit(ExitStatus.FAILED)


def read_request(options: ReplayOptions) -> "ReplayRequest":
    """Return the request; raises `typer.BadParameter` if a secret or a pattern is wrong."""
    from ors_server.environments.volatile import check_patterns
    from ors_server.replaying.replay import ReplayRequest

    try:
        volatile = check_patterns(options.volatile or ())
    except ValueError as error:
        raise typer.BadParameter(f"--volatile: {error}.") from error
    return ReplayRequest(dict(map(read_secret, options.secret or ())), volatile)


def read_secret(text: str) -> tuple[str, str]:
    """Read `NAME=env:VARIABLE` and the variable; a message never repeats a secret from the command line.

    Raises:
        typer.BadParameter: If the text has another form, or there is no such variable.
    """
    name, _, place = text.partition("=")
    variable = place.removeprefix(_FROM_ENVIRONMENT)
    if not name or not variable or variable == place:
        raise typer.BadParameter(
            "--secret is NAME=env:VARIABLE: name the environment variable that holds the secret. Other users "
            "can see a secret on the command line."
        )
    if variable not in os.environ:
        raise typer.BadParameter(f"--secret {name}: the environment variable {variable!r} is not set.")
    return name, os.environ[variable]


async def _replay(options: ReplayOptions, request: "ReplayRequest", verdicts: Counter[str]) -> None:
    from ors_server.replaying.replay import replay_episode

    async with open_recorded(options) as episodes, _open_stage(options) as stage:
        async for episode in episodes.each():
            found = await replay_episode(episode, stage, request)
            verdicts[found.verdict.value] += 1
            _show(found, as_json=options.json)


def _open_stage(options: ReplayOptions) -> AbstractAsyncContextManager["Stage"]:
    if options.against is not None:
        from ors_server.cli.server_requests import api_key, is_url
        from ors_server.replaying.stage import open_server_stage

        if not is_url(options.against):
            raise typer.BadParameter(
                f"--against must be a server's URL, such as http://127.0.0.1:8080, got {options.against!r}."
            )
        return open_server_stage(options.against, api_key=api_key(), environment=options.environment)
    from ors_server.app import sandbox_request
    from ors_server.environments.loading import load_environments
    from ors_server.model.settings import load_settings
    from ors_server.replaying.stage import open_local_stage

    definitions = [] if options.environment is None else load_environments([options.environment])
    return open_local_stage(definitions, sandbox=sandbox_request(load_settings()))


def _show(found: "EpisodeReplay", *, as_json: bool) -> None:
    from ors_server.replaying.rendering import render

    if as_json:
        say(json.dumps(found.as_json()))
        return
    for line in render(found):
        say(clean(line))
