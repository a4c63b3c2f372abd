"""verifiers' tasksets: tasks and rewards that need no runtime. The agent's answer is the model's reply."""

from ors_server.adapters.scored_answers import ScoredAnswer, make_scored
from ors_server.adapters.worker_package import WorkerPackage
from ors_server.environments.sources import Source

PACKAGE = WorkerPackage(
    distribution="verifiers",
    version="0.4.0",
    variable="ORS_VERIFIERS_PYTHON",
    program="verifiers_program.py:VerifiersTaskset",
)


def from_verifiers(reference: str) -> type[ScoredAnswer]:
    """Make the environment of a verifiers taskset, at `FILE.py[:CLASS]` or `MODULE[:CLASS]`.

    The reward is the weighted sum of the task's rewards. A field such as `answer` of a task's data is used
    as its right answer.

    Raises:
        UnknownEnvironmentError: If the file does not exist.
        EnvironmentDefinitionError: If verifiers is not installed, or the taskset is infinite or empty, or its
            rewards need a runtime, a container or toolsets.
    """
    return make_scored(SOURCE, PACKAGE, reference)


SOURCE = Source(
    name="verifiers",
    requires=(PACKAGE.requirement,),
    licence="MIT",
    homepage="https://github.com/PrimeIntellect-ai/verifiers",
    list_names=lambda: (),
    make=from_verifiers,
    is_open=True,
    install=PACKAGE.install_hint,
    find_version=PACKAGE.find_version,
)
"""verifiers, for the command line."""
