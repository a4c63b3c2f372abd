"""Environments in the form before verifiers 0.4, which `load_environment()` makes: rows, and a rubric."""

from ors_server.adapters.scored_answers import ScoredAnswer, make_scored
from ors_server.adapters.worker_package import WorkerPackage
from ors_server.environments.sources import Source

PACKAGE = WorkerPackage(
    distribution="verifiers",
    version="0.3.1",
    variable="ORS_VERIFIERS_0_3_PYTHON",
    program="verifiers_environment_program.py:VerifiersEnvironment",
)


def from_verifiers_environment(reference: str) -> type[ScoredAnswer]:
    """Make the environment that `load_environment()` returns, at `FILE.py[:FUNCTION]` or `MODULE[:FUNCTION]`.

    Its form is that of verifiers before 0.4: a data set of prompts and answers, and a rubric, whose weighted
    sum is the reward. The rows are those of the evaluation, if there are such rows, else those of training.
    What a reward function raises is an error here; verifiers counts it as 0.

    Raises:
        UnknownEnvironmentError: If the file does not exist.
        EnvironmentDefinitionError: If verifiers is not installed, or the environment is not a
            `SingleTurnEnv`, or is empty, or has rewards of groups.
    """
    return make_scored(SOURCE, PACKAGE, reference)


SOURCE = Source(
    name="verifiers_environment",
    requires=(PACKAGE.requirement,),
    licence="MIT",
    homepage="https://github.com/PrimeIntellect-ai/verifiers",
    list_names=lambda: (),
    make=from_verifiers_environment,
    is_open=True,
    install=PACKAGE.install_hint,
    find_version=PACKAGE.find_version,
)
"""Environments of older versions of verifiers, for the command line."""
