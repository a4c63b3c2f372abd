"""Inspect's tasks: a data set and scorers. Their solvers do not run, the agent answers instead."""

from ors_server.adapters.scored_answers import ScoredAnswer, make_scored
from ors_server.adapters.worker_package import WorkerPackage
from ors_server.environments.sources import Source

PACKAGE = WorkerPackage(
    distribution="inspect-ai",
    version="0.3.285",
    variable="ORS_INSPECT_PYTHON",
    program="inspect_program.py:InspectTask",
)


def from_inspect(reference: str) -> type[ScoredAnswer]:
    """Make the environment of an Inspect task, at `FILE.py:TASK` or `MODULE:TASK`.

    The prompt is the sample's input, the reward is the first scorer's value as a number (C is 1, P is 0.5, I
    and N are 0); a sample that the scorer leaves unscored pays nothing.

    Raises:
        UnknownEnvironmentError: If the file does not exist.
        EnvironmentDefinitionError: If inspect-ai is not installed, or the task needs a sandbox, files, a
            setup, or has no scorer.
    """
    return make_scored(SOURCE, PACKAGE, reference)


SOURCE = Source(
    name="inspect",
    requires=(PACKAGE.requirement,),
    licence="MIT",
    homepage="https://inspect.aisi.org.uk",
    list_names=lambda: (),
    make=from_inspect,
    is_open=True,
    install=PACKAGE.install_hint,
    find_version=PACKAGE.find_version,
)
"""Inspect, for the command line."""
