"""Errors of grading, and whom each blames; a case that the agent fails is a result, not an error."""

from ors_server.model.errors import AuthorError, MachineryError


class GradingError(AuthorError):
    """Cases or hidden tests cannot be graded as they are written, for any agent."""

    code = "grading"


class GraderFailedError(MachineryError):
    """The grader's own means are missing or failed: an interpreter, pytest, the trusted process."""

    code = "grader_failed"
