"""Errors of simulated users. None of them is a reward, and none of them is the agent's fault."""

from ors_server.environments.tool import ToolError
from ors_server.model.errors import AuthorError, MachineryError


class UserError(MachineryError):
    """The user's model returned no answer: its endpoint refused, failed, or was too slow."""

    code = "user_failed"


class UserBudgetError(UserError):
    """The user's model has used the seconds that it has for an episode."""

    code = "user_budget"


class UserSettingsError(AuthorError):
    """A user cannot be used as it is set up: no model, no package, an illegal script or answer."""

    code = "user_settings"


class UserRecordError(AuthorError):
    """An episode that is replayed sends its user something that is not on record."""

    code = "user_record"


class UserMessageError(ToolError):
    """The agent's message cannot be sent: it is empty or too long, or the user has left."""
