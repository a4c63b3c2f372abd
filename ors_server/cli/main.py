"""The entry point: runs one command; an exception becomes one line and an exit status."""

import sys
import traceback
from collections.abc import Callable, Sequence
from functools import cache
from typing import Annotated, Any

import typer
from typing_extensions import override

from ors_server._version import __version__
from ors_server.cli.audit_command import audit
from ors_server.cli.call_command import call
from ors_server.cli.check_command import check
from ors_server.cli.command_options import Command, CommandGroup, named_only, with_options
from ors_server.cli.command_output import MisuseError, complain, say
from ors_server.cli.compare_command import compare
from ors_server.cli.doctor_command import doctor, version
from ors_server.cli.episodes_command import episodes
from ors_server.cli.eval_command import evaluate
from ors_server.cli.examples import epilog_of
from ors_server.cli.exit_status import EPILOG, ExitStatus
from ors_server.cli.export_command import export
from ors_server.cli.hosts_command import drain, front, hosts, restart
from ors_server.cli.images_command import images
from ors_server.cli.import_command import import_environments
from ors_server.cli.list_command import list_environments
from ors_server.cli.mcp_command import mcp
from ors_server.cli.new_command import new
from ors_server.cli.package_command import package
from ors_server.cli.play_command import play
from ors_server.cli.regrade_command import regrade
from ors_server.cli.replay_command import replay
from ors_server.cli.report_command import report
from ors_server.cli.rewards_command import rewards
from ors_server.cli.score_command import score
from ors_server.cli.serve_command import ServeOptions, serve
from ors_server.cli.store_command import store
from ors_server.cli.tasks_command import tasks
from ors_server.cli.watch_command import watch
from ors_server.images.image_errors import UnknownImageError
from ors_server.model.errors import (
    AmbiguousEpisodeError,
    EpisodeNotFoundError,
    OrsServerError,
    SettingsError,
    UnknownEnvironmentError,
    UnknownSplitError,
    UnknownTaskError,
    first_of,
)
from ors_server.processes.garbage_collector import collect_rarely
from ors_server.rewards.reward_errors import UnknownRewardError

DEBUG = "--debug"
_get_command = cache(typer.main.get_command)
"""Makes the tree of all commands; once, where a process runs several."""

_UsageError = typer.BadParameter.__mro__[1]
MISUSES = (
    _UsageError,
    MisuseError,
    SettingsError,
    UnknownEnvironmentError,
    UnknownSplitError,
    UnknownTaskError,
    UnknownRewardError,
    UnknownImageError,
    EpisodeNotFoundError,
    AmbiguousEpisodeError,
)
"""Errors that mean that the command line names something that does not exist, or is wrong otherwise."""


class Commands(CommandGroup):
    """All commands; the options of one are made only when it runs: all together cost a sixth of a start."""

    @override
    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        if name == "serve":
            from ors_server.cli.setting_flags import with_flags

            command = with_flags(serve, ServeOptions, shows_all="--help" not in args)
        elif name in COMMANDS:
            # `doctor` reports unknown variables.
            command = with_options(COMMANDS[name], epilog_of(name), checks_variables=name != "doctor")
        return name, command, rest


app = typer.Typer(
    name="ors-server",
    cls=Commands,
    add_completion=True,
    pretty_exceptions_enable=False,
    invoke_without_command=True,
    help="Serve RL environments for language-model agents over the Open Reward Standard and MCP.",
    epilog=EPILOG,
)
COMMANDS: dict[str, Callable[[Any], None]] = {
    "serve": serve,
    "list": list_environments,
    "play": play,
    "call": call,
    "check": check,
    "audit": audit,
    "tasks": tasks,
    "import": import_environments,
    "eval": evaluate,
    "report": report,
    "compare": compare,
    "replay": replay,
    "regrade": regrade,
    "score": score,
    "rewards": rewards,
    "export": export,
    "watch": watch,
    "new": new,
    "package": package,
    "hosts": hosts,
    "restart": restart,
    "drain": drain,
    "front": front,
    "doctor": doctor,
    "version": version,
}
GROUPS: dict[str, typer.Typer] = {"mcp": mcp, "episodes": episodes, "store": store, "images": images}
PANELS = {
    "Serve and play": ("serve", "list", "play", "call", "mcp"),
    "Run several hosts": ("hosts", "restart", "drain", "front"),
    "Write environments": ("new", "check", "audit", "tasks", "package", "import", "images"),
    "Evaluate agents": ("eval", "report", "compare"),
    "Use the record": ("episodes", "watch", "replay", "regrade", "export", "store"),
    "Rewards": ("rewards", "score"),
    "This installation": ("doctor", "version"),
}
"""The commands as the help groups them."""
for panel, names in PANELS.items():
    for name in names:
        if name in COMMANDS:
            app.command(name, cls=Command, rich_help_panel=panel)(named_only(COMMANDS[name]))
        else:
            app.add_typer(GROUPS[name], name=name, rich_help_panel=panel)


@app.callback()
def start(
    context: typer.Context,
    *,
    print_version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    debug: Annotated[
        bool, typer.Option(DEBUG, help="Show tracebacks and the log; may be anywhere on the line.")
    ] = False,
) -> None:
    """Print the version or the help."""
    del debug  # taken out of the line before it is parsed
    if print_version:
        say(__version__)
    elif context.invoked_subcommand is None:
        say(context.get_help())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; words are the process's own by default. Returns one of `ExitStatus`."""
    collect_rarely()  # before the command imports what it needs
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = DEBUG in words
    if debug:
        from ors_server.model import logs

        words.remove(DEBUG)
        logs.configure(level="debug")
    try:
        status = _get_command(app).main(args=words, prog_name="ors-server", standalone_mode=False)
    except KeyboardInterrupt:
        return ExitStatus.INTERRUPTED
    except SystemExit as stopped:  # shell completion ends so
        return stopped.code if isinstance(stopped.code, int) else ExitStatus.SUCCESS
    except Exception as error:  # noqa: BLE001  (the last place that could turn it into one line)
        return _report(error, debug=debug)
    return status if isinstance(status, int) else 0


def _report(error: Exception, *, debug: bool) -> int:
    if debug:
        traceback.print_exception(error)
    complain(explain(error))
    for line in getattr(first_of(error), "reports", ())[1:]:  # the message has the first
        complain(line)
    if isinstance(error, ImportError | AttributeError):
        # Another package with this package's names may have replaced files of it.
        from ors_server.installation import find_intruders

        for intruder in find_intruders():
            if not intruder.is_harmless:
                complain(f"{intruder.text}: {intruder.remedy}")
    if isinstance(error, _UsageError):
        context = getattr(error, "ctx", None)
        path = "ors-server" if context is None else context.command_path
        complain(f"Try {path} --help")
    return ExitStatus.MISUSED if isinstance(first_of(error), MISUSES) else ExitStatus.FAILED


def explain(error: BaseException) -> str:
    """Describe an error on one line, without the values of options and settings."""
    from pydantic import ValidationError

    from ors_server.model.settings import as_expectation

    error = first_of(error)
    if isinstance(error, _UsageError):
        return as_expectation(error.format_message())  # type: ignore[attr-defined]  # click has it
    if isinstance(error, ValidationError):
        mistakes = (
            f"{'.'.join(str(part) for part in item['loc']) or error.title}: {as_expectation(item['msg'])}"
            for item in error.errors(include_url=False, include_input=False)
        )
        return "; ".join(mistakes)
    if isinstance(error, OrsServerError):
        return str(error)
    if isinstance(error, OSError):
        return f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}"
    if isinstance(error, typer.Abort):
        return "aborted"
    return f"{type(error).__name__}: {error} (this is a defect; --debug shows where)"


if __name__ == "__main__":
    sys.exit(main())
