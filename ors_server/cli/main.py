"""The entry point: runs one command and turns what escapes it into one line and an exit status."""

import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Annotated, Any, cast

import typer

from ors_server import __version__
from ors_server.cli.call import call
from ors_server.cli.check import check
from ors_server.cli.compare import compare
from ors_server.cli.episodes import episodes
from ors_server.cli.eval import evaluate
from ors_server.cli.export import export
from ors_server.cli.listing import list_environments
from ors_server.cli.new import new
from ors_server.cli.options import from_fields
from ors_server.cli.output import complain, say
from ors_server.cli.play import play
from ors_server.cli.regrade import regrade
from ors_server.cli.replay import replay
from ors_server.cli.report import report
from ors_server.cli.rewards import rewards
from ors_server.cli.score import score
from ors_server.cli.serve import serve
from ors_server.cli.store import store
from ors_server.cli.version import version
from ors_server.errors import OrsServerError

DEBUG = "--debug"
FAILED = 1
"""Exit status of a command that failed."""
MISUSED = 2
"""Exit status of a command line that makes no sense."""
INTERRUPTED = 130
"""Exit status after Ctrl-C, as shells have it."""

_UsageError = typer.BadParameter.__mro__[1]

app = typer.Typer(
    name="ors-server",
    add_completion=False,
    pretty_exceptions_enable=False,
    invoke_without_command=True,
    help="Serve RL environments for language-model agents over the Open Reward Standard and MCP.",
)
COMMANDS: dict[str, Callable[[Any], None]] = {
    "serve": serve,
    "list": list_environments,
    "play": play,
    "call": call,
    "check": check,
    "eval": evaluate,
    "report": report,
    "compare": compare,
    "replay": replay,
    "regrade": regrade,
    "score": score,
    "rewards": rewards,
    "export": export,
    "new": new,
    "version": version,
}
for name, command in COMMANDS.items():
    app.command(name)(from_fields(command))
GROUPS: dict[str, typer.Typer] = {"episodes": episodes, "store": store}
for name, group in GROUPS.items():
    app.add_typer(group, name=name)


@app.callback()
def start(
    context: typer.Context,
    *,
    print_version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    debug: Annotated[
        bool, typer.Option(DEBUG, help="Show tracebacks and the log; stands anywhere on the line.")
    ] = False,
) -> None:
    """Do what every command needs done first."""
    del debug  # taken out of the line before it is parsed
    if print_version:
        say(__version__)
    elif context.invoked_subcommand is None:
        say(context.get_help())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: Words after the program's name; the process's own by default.

    Returns:
        Exit status: 0 for success, 1 for failure, 2 for a command line that makes no sense, 130 after Ctrl-C.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = DEBUG in words
    if debug:
        from ors_server import logs

        words.remove(DEBUG)
        logs.configure(level="debug")
    try:
        status = typer.main.get_command(app).main(args=words, prog_name="ors-server", standalone_mode=False)
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001  (the last place that could turn it into one line)
        return _report(error, debug=debug)
    return status if isinstance(status, int) else 0


def _report(error: Exception, *, debug: bool) -> int:
    if debug:
        traceback.print_exception(error)
    complain(explain(error))
    return MISUSED if isinstance(error, _UsageError) else FAILED


def explain(error: BaseException) -> str:
    """Say in one line what went wrong, without the values that were given.

    Args:
        error: Whatever escaped a command.
    """
    from pydantic import ValidationError

    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    if isinstance(error, _UsageError):
        return f"{error.format_message()} Try --help."  # type: ignore[attr-defined]  # click has it
    if isinstance(error, ValidationError):
        mistakes = (
            f"{'.'.join(str(part) for part in item['loc']) or error.title}: {item['msg']}"
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
