"""Why nothing could be judged, and whom that blames; a case that the agent fails is a result and no error."""

from ors_server.errors import AuthorError, MachineryError


class GradingError(AuthorError):
    """Cases or hidden tests cannot be graded as they are written, whatever the agent does."""

    code = "grading"


class GraderFailedError(MachineryError):
    """What the judging needs is not there, or gave way: an interpreter, pytest, the trusted process."""

    code = "grader_failed"
