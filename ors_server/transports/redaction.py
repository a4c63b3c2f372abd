"""What of an output an agent may see; a trainer sees everything."""

from ors_server.transports.access import Caller, Role
from ors_server.visibility import Visibility
from ors_server.wire import ToolOutput


def may_see_rewards(caller: Caller, visibility: Visibility) -> bool:
    """Say whether a caller may read rewards in plain sight.

    Args:
        caller: Who asks.
        visibility: The session's setting.
    """
    return caller.role >= Role.TRAINER or visibility is Visibility.VISIBLE


def redact(output: ToolOutput, caller: Caller, visibility: Visibility) -> ToolOutput:
    """Take the numbers out of an output for a caller who may not see them.

    Args:
        output: The whole output.
        caller: Who reads it.
        visibility: The session's setting.
    """
    if may_see_rewards(caller, visibility):
        return output
    return output.model_copy(update={"reward": None, "metadata": None})
