"""Sends answers that the fast comparison found different, or could not parse, to a worker process.

Only what the fast comparison cannot decide is sent: integrals, sums, limits, derivatives, special functions,
matrices with letters, general solutions, sets given by conditions. Results are cached. The worker imports
SymPy when it starts, which counts against no answer; `prepare` starts it ahead.
"""

import functools
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ors_server.processes import offload
from ors_server.rewards.math.algebra.answer_statements import AnswerStatement, read_statement
from ors_server.rewards.math.algebra.constants import constants
from ors_server.rewards.math.algebra.families import parameters
from ors_server.rewards.math.algebra.function_names import SPECIAL
from ors_server.rewards.math.algebra.judge import Opinion
from ors_server.rewards.math.limits import MathError
from ors_server.rewards.math.normalise import unfence, unify
from ors_server.rewards.math.tree import Binder, Function, Matrix, contains, walk

CPU_SECONDS: Final = 2.0
"""Processor time of the worker for one question."""
# Results depend on the texts alone, and the rollouts of a task repeat answers.
_CACHE_SIZE: Final = 4_096
_MAX_CHARS: Final = 1_000
"""Greatest length of a text that is sent."""
_LIMITS: Final = offload.OffloadLimits(cpu_seconds=CPU_SECONDS)
_MODULE: Final = "ors_server.rewards.math.algebra.symbolic_judge"
_DECIDE: Final = offload.FunctionPath(f"{_MODULE}:decide")
_BY_ITSELF: Final = offload.FunctionPath(f"{_MODULE}:by_itself")
_SIGNS: Final = re.compile(
    r"\\(?:i*int|sum|prod|lim|Gamma|zeta|eta|psi|det|begin|partial|operatorname|in|forall|mid|binom|le|leq|ge|geq|ne|neq)"
    r"(?![A-Za-z])|\\mathrm|\\[{|]|d ?/ ?d|erf|integer|constant|(?:int|sum|lim)_|['!<>|:]"
    r"|[A-Z] ?_? ?\{?\w{0,9}\}? ?(?:\\left)?\("
    r"|\\frac ?\{? ?\\?(?:mathrm)? ?\{?d|(?<![A-Za-z\\])[CcK]|(?<=[\da-z}])[CK]|H_|\^T|\{ ?- ?1 ?\}"
    r"|[,(][^,()]*(?<![A-Za-z\\])[stur](?![A-Za-z])|\\lambda|\\mu|e ?\^"
)
"""Signs of such answers, where white space is single; its parts are short, so that the search is linear."""
_TURNS: Final = re.compile(r"pi|π|circ|degree|°")
_WHOLE: Final = re.compile(
    r"(?<![A-Za-z\\])[knmlNK](?![A-Za-z])|(?<=\d)[knml]|[knml]\\pi|\\pi\s*[knml](?![a-z])"
)
"""Letters that often name integers as factors of a full or half turn."""


@dataclass(frozen=True, slots=True)
class SecondOpinion:
    """The result of comparing two texts by algebra."""

    opinion: Opinion
    answer: str
    """The text that was compared as the answer."""
    is_over: bool = False
    """Whether the worker was ended because it exceeded a limit."""
    is_gold_beyond: bool = False
    """Whether the gold answer alone exceeds a limit."""


def second_opinion(gold: str, answers: tuple[str, ...]) -> SecondOpinion | None:
    """Compare an answer with the gold answer by algebra; `None` where algebra does not apply.

    `answers` are the texts that may be the answer, likeliest first; the first that can be parsed is compared.

    Raises:
        WorkerLostError: The machine failed, twice.
    """
    gold = _one_spaced(gold)
    if len(gold) > _MAX_CHARS:
        return None
    has_sign = _has_sign(gold)
    # The first text that parses is the answer: a later one must not turn a wrong answer right.
    for text in dict.fromkeys(_one_spaced(unfence(answer)) for answer in answers):
        # The search for signs comes first: it is linear and rules most answers out, without a parser.
        if not 0 < len(text) <= _MAX_CHARS or not (has_sign or _has_sign(text)):
            continue
        if _read(text) is not None:
            return _ask(gold, text)
    return None


def _one_spaced(text: str) -> str:
    return " ".join(text.split())


def _has_sign(text: str) -> bool:
    return bool(_SIGNS.search(text)) or bool(_TURNS.search(text) and _WHOLE.search(text))


@functools.lru_cache(_CACHE_SIZE)
def _read(text: str) -> AnswerStatement | None:
    try:
        return read_statement(text)
    except (MathError, RecursionError):
        return None


@functools.lru_cache(_CACHE_SIZE)
def _ask(gold: str, answer: str) -> SecondOpinion | None:
    gold_reading, answer_reading = _read(gold), _read(answer)
    # What needs no algebra has been decided by the fast comparison.
    if gold_reading is None or answer_reading is None or not _is_worth_while(gold_reading, answer_reading):
        return None
    try:
        opinion: Opinion = _call(_DECIDE, gold_reading, answer_reading)
    # The worker was killed in the middle of a question: was it the gold's fault? Then no answer could be
    # graded.
    except offload.OverLimitError as error:
        return SecondOpinion(
            Opinion(None, "none", str(error)),
            answer,
            is_over=True,
            is_gold_beyond=_gold_exceeds_limits(gold_reading),
        )
    return SecondOpinion(opinion, answer)


def _call(path: offload.FunctionPath, *statements: AnswerStatement) -> Any:
    workers = offload.prepared(_MODULE)
    # Once more: a lost worker may have been the machine's failure (memory, a signal), and nothing was judged.
    try:
        return workers.call(path, *statements, limits=_LIMITS)
    except offload.WorkerLostError:
        return workers.call(path, *statements, limits=_LIMITS)


@functools.lru_cache(_CACHE_SIZE)
def _gold_exceeds_limits(gold: AnswerStatement) -> bool:
    try:
        _call(_BY_ITSELF, gold)
    except offload.OverLimitError:
        return True
    return False


def prepare(task: Mapping[str, Any]) -> None:
    """Start a worker in the background if a task's `answer` may need it; returns at once."""
    gold = task.get("answer")
    if not isinstance(gold, str) or len(gold) > _MAX_CHARS or not _has_sign(_one_spaced(gold)):
        return
    workers = offload.prepared(_MODULE)
    if workers.is_ready:
        return

    def start() -> None:
        statement = _read(_one_spaced(unfence(unify(gold))))
        # The pattern of signs is generous; only a gold answer that needs algebra is worth a worker.
        if statement is not None and _is_worth_while(statement, statement):
            workers.prepare()

    # Starting the worker imports SymPy, which takes time: a thread, so that the session does not wait.
    threading.Thread(target=start, name="algebra-start", daemon=True).start()


def _is_worth_while(gold: AnswerStatement, answer: AnswerStatement) -> bool:
    if parameters(gold, answer) is not None or constants(gold, answer) is not None:
        return True
    if "condition" in (gold.kind, answer.kind):
        return True
    return any(
        isinstance(part, Binder | Matrix) or (isinstance(part, Function) and part.name in SPECIAL | {"det"})
        for item in (*gold.items, *answer.items)
        for part in walk(item)
    )


def restates(gold: str, answer: str) -> bool:
    """Return whether an answer leaves something unevaluated that the gold answer does not."""
    gold_reading, answer_reading = _read(unfence(gold)), _read(unfence(answer))
    return (
        answer_reading is not None
        and _is_open(answer_reading)
        and (gold_reading is None or not _is_open(gold_reading))
    )


def _is_open(statement: AnswerStatement) -> bool:
    return any(contains(item, Binder) for item in statement.items)


def forget() -> None:
    """Clear the cached results."""
    _read.cache_clear()
    _ask.cache_clear()
    _gold_exceeds_limits.cache_clear()
