"""The datasets of reasoning-gym: each is an environment whose tasks are generated from a seed."""

import functools
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

from typing_extensions import override

from ors_server.adapters.numbered_tasks import NumberedTasks, SplitSizes, share_tasks
from ors_server.adapters.reasoning_gym_answers import GeneratedProblem
from ors_server.environments.environment import Environment
from ors_server.environments.sources import Source, served_name
from ors_server.environments.toolsets.submit import Submission
from ors_server.model.errors import EnvironmentDefinitionError
from ors_server.model.policy import EpisodePolicy
from ors_server.model.wire import JSONObject
from ors_server.processes import offload
from ors_server.processes.offload import OffloadLimits, PreparedPool
from ors_server.rewards.result import RewardResult

PINNED = "reasoning-gym==0.1.25"
EDITION = "4"
"""Changes whenever the same dataset and options give other prompts or rewards than before."""
LIMITS = OffloadLimits(cpu_seconds=20.0, memory_bytes=2048 * offload.MIB)
"""For making a problem, or for scoring an answer."""
MODULE = "ors_server.adapters.reasoning_gym_worker"
_make = offload.FunctionPath(f"{MODULE}:make_problem")
_score = offload.FunctionPath(f"{MODULE}:score_answer")
_list_tasks = offload.FunctionPath(f"{MODULE}:list_tasks")
_check = offload.FunctionPath(f"{MODULE}:check_options")


@functools.cache
def workers() -> PreparedPool:
    """Return workers that outlast an application, since importing reasoning-gym takes seconds.

    They have the same hash seed: some datasets depend on the order of a set of texts.
    """
    return PreparedPool(MODULE, size=2, variables={"PYTHONHASHSEED": "0", "PYTHONWARNINGS": "ignore"})


_NAMES = """
    ab acre advanced_geometry aiw arc_1d arc_agi base_conversion basic_arithmetic bf binary_alternation
    binary_matrix bitwise_arithmetic boxnet caesar_cipher calendar_arithmetic chain_sum circuit_logic
    codeio coin_flip color_cube_rotation complex_arithmetic count_bits count_primes countdown
    course_schedule cryptarithm decimal_arithmetic decimal_chain_sum dice emoji_mystery
    family_relationships figlet_font fraction_simplification futoshiki game_of_life game_of_life_halting
    gcd graph_color group_anagrams gsm_symbolic intermediate_integration isomorphic_strings jugs
    kakurasu knight_swap knights_knaves largest_island lcm leg_counting letter_counting letter_jumble
    list_functions mahjong_puzzle manipulate_matrix maze mini_sudoku modulo_grid n_queens
    needle_haystack number_filtering number_format number_sequence number_sorting palindrome_generation
    palindrome_partitioning path_star polynomial_equations polynomial_multiplication pool_matrix
    power_function prime_factorization products propositional_logic puzzle24 quantum_lock ransom_note
    rearc rectangle_count rotate_matrix rotten_oranges rubiks_cube rush_hour self_reference
    sentence_reordering shortest_path simple_equations simple_geometry simple_integration sokoban
    spell_backward spiral_matrix string_insertion string_manipulation string_splitting string_synthesis
    sudoku survo syllogism time_intervals tower_of_hanoi tsumego word_ladder word_sequence_reversal
    word_sorting zebra_puzzles
"""
DATASETS = tuple(_NAMES.split())
"""All but `composite`, which mixes the others."""
_REPEATING = """
    acre aiw base_conversion bf binary_alternation binary_matrix boxnet caesar_cipher
    calendar_arithmetic chain_sum coin_flip complex_arithmetic dice emoji_mystery gcd graph_color
    gsm_symbolic isomorphic_strings kakurasu largest_island lcm modulo_grid n_queens
    palindrome_generation prime_factorization products propositional_logic rush_hour self_reference
    sentence_reordering simple_geometry spell_backward spiral_matrix string_splitting
    string_synthesis tower_of_hanoi
"""
REPEATING = frozenset(_REPEATING.split())
"""Datasets that repeat questions within their first 1,100 and are quick to compare, as was measured."""
LEFT_OUT = Path(__file__).with_name("reasoning_gym_left_out.json")
"""For datasets that are slow to list, without options: the indices that are not tasks, as `list_tasks` found
them in up to 40 seconds of processor time for each dataset."""
_NO_ANSWER = "it stores no answer, so nothing shows that its problems can be solved"
BROKEN = MappingProxyType(
    {
        "boxnet": f"{_NO_ANSWER}, and answers such as 1 break its grader",
        "game_of_life_halting": "it pays 1 for every answer that is not empty",
        "graph_color": _NO_ANSWER,
        "propositional_logic": f"{_NO_ANSWER}, and it pays up to 0.25 for any text",
        "puzzle24": "it pays 1 for any four numbers that make 24, not only for those of the problem",
        "rubiks_cube": _NO_ANSWER,
        "rush_hour": _NO_ANSWER,
    }
)
"""Datasets of reasoning-gym 0.1.25 whose rewards cannot be trusted, with the reason."""


@dataclass(frozen=True)
class DatasetSettings(SplitSizes):
    """A dataset, the fields of its configuration, and its splits."""

    dataset: str
    seed: int = 0
    train_tasks: int = 1000
    test_tasks: int = 100
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def config(self) -> str:
        """Return the fields of the configuration as JSON."""
        size = self.train_tasks + self.test_tasks
        return json.dumps({**self.options, "seed": self.seed, "size": size}, sort_keys=True)


class ReasoningGymEnvironment(NumberedTasks):
    """Base of the classes that `from_reasoning_gym` makes."""

    toolsets = ("submit",)
    policy = EpisodePolicy(reward_range=(0.0, 1.0))
    _settings: ClassVar[DatasetSettings]
    _indices: ClassVar[Sequence[int]]
    _problem: GeneratedProblem

    @override
    @classmethod
    def _task_of(cls, number: int) -> JSONObject:
        return {"dataset": cls._settings.dataset, "index": cls._indices[number]}

    @classmethod
    def gold_actions(cls, task_spec: JSONObject) -> list[tuple[str, dict[str, Any]]]:
        """Return the stored answer, submitted."""
        problem = workers().call(_make, *cls._address(task_spec), limits=LIMITS)
        return [("submit", {"answer": problem.answer})]

    @classmethod
    def blank_actions(cls, task_spec: JSONObject) -> list[tuple[str, dict[str, Any]]]:
        """Return an empty answer, submitted."""
        del task_spec
        return [("submit", {"answer": ""})]

    @override
    async def setup(self) -> None:
        address = self._address(self.task_spec)
        self._problem = await workers().run(_make, *address, limits=LIMITS)

    @override
    def save_state(self) -> JSONObject:
        return {}

    @override
    async def load_state(self, state: JSONObject) -> None:
        await self.setup()

    @override
    def get_prompt(self) -> str:
        return f"{self._problem.question}\n\nSubmit the answer with the tool `submit`, in the form asked for."

    @override
    async def grade_submission(self, submission: Submission) -> RewardResult:
        call = (*self._address(self.task_spec), self._problem, submission.answer or "")
        # The problem goes along, so that the worker can tell whether it made the same one again.
        try:
            verdict = await workers().run(_score, *call, limits=LIMITS)
        except offload.OverLimitError as error:
            return RewardResult(0.0, reason=f"reading the answer exceeded a limit: {error}")
        return RewardResult(verdict.score, reason=verdict.reason)

    @classmethod
    def _address(cls, task_spec: JSONObject) -> tuple[str, str, int]:
        """Return the arguments that identify a problem for a worker."""
        return cls._settings.dataset, cls._settings.config(), int(task_spec["index"])


def from_reasoning_gym(
    dataset: str, *, seed: int = 0, train_tasks: int = 1000, test_tasks: int = 100, **options: Any
) -> type[Environment]:
    """Make an environment of a dataset of reasoning-gym; its tool is `submit(answer)`.

    A task is an index of the dataset: those of `train` come first, those of `test` after them. An index that
    repeats an earlier question, or whose own answer is refused, is not a task, so there may be fewer than
    requested; datasets that are slow to compare are not compared if they have options or another seed. The
    dataset's own `score_answer` grades.
    It runs in a worker process with limits; an answer that it cannot read earns 0.

    Args:
        dataset: A name such as `leg_counting`; one that is listed as broken is made, too.
        seed: Seed of the dataset.
        train_tasks: Number of tasks of the split `train`.
        test_tasks: Number of tasks of the split `test`.
        **options: Fields of the dataset's configuration, such as `max_animals=5`.

    Raises:
        UnknownEnvironmentError: If reasoning-gym has no such dataset.
        EnvironmentDefinitionError: If reasoning-gym is not installed in the right version, or options do not
            fit.
    """
    SOURCE.check_name(dataset)
    SOURCE.check_installed()
    return _make_class(DatasetSettings(dataset, seed, train_tasks, test_tasks, options))


@functools.cache
def _read_left_out() -> Mapping[str, Sequence[int]]:
    left_out: dict[str, list[int]] = json.loads(LEFT_OUT.read_text())
    return left_out


def _make_class(settings: DatasetSettings) -> type[Environment]:
    label = f"reasoning_gym/{settings.dataset}"
    settings.check_sizes(label)
    if settings.options:
        mistake = workers().call(_check, settings.dataset, settings.config(), limits=LIMITS)
        if mistake:
            raise EnvironmentDefinitionError(f"{label}: {mistake}")
    indices: Sequence[int] = range(settings.train_tasks + settings.test_tasks)
    # With other options or another seed, the stored list does not hold.
    if settings == DatasetSettings(settings.dataset):
        left_out = frozenset(_read_left_out().get(settings.dataset, ()))
        indices = [index for index in indices if index not in left_out]
    if settings.dataset in REPEATING:
        indices = workers().call(_list_tasks, settings.dataset, settings.config(), limits=LIMITS)
    train, test = share_tasks(settings, len(indices))
    digest = hashlib.sha256(settings.config().encode()).hexdigest()[:8]
    return type(
        "".join(part.capitalize() for part in settings.dataset.split("_")),
        (ReasoningGymEnvironment,),
        {
            "__doc__": f"The dataset {settings.dataset} of reasoning-gym.",
            "name": served_name("reasoning_gym", settings.dataset),
            "version": f"{PINNED.partition('==')[2]}-{EDITION}-{digest}",
            "_settings": settings,
            "_split_sizes": replace(settings, train_tasks=train, test_tasks=test),
            "_indices": indices,
        },
    )


def _make_default(name: str) -> type[Environment]:
    return _make_class(DatasetSettings(name))


def _names() -> Sequence[str]:
    return DATASETS


SOURCE = Source(
    name="reasoning_gym",
    requires=(PINNED,),
    licence="Apache-2.0",
    homepage="https://github.com/open-thought/reasoning-gym",
    list_names=_names,
    make=_make_default,
    broken=BROKEN,
)
