"""Runs an audit: prepares the environment, asks every policy, and makes the report.

An audit goes through these steps, in this order:

1. `prepare` reads tasks and tools, plays the gold actions, and finds the answer in them.
2. Each policy is asked in turn, within its share of the time (`TimeBudget`). One that ran out of its share is
   asked again with the time that the others left. Policies with their own process run at the same time.
3. The calls of the worst findings are made shorter (`minimise`): fewer calls first, then shorter texts.
4. Findings in the environment's source and in its tasks are added to the verdicts.
5. If a record is kept, the transcripts are played again as episodes, which `ors-server replay` can replay.

A policy that cannot judge, runs out of time or fails gives `NOT_JUDGED`, never a pass.
"""

import shlex
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from ors_server.audit.answer_slot import leaves, with_value
from ors_server.audit.audit_context import AuditContext, AuditPlayer, BudgetOverError, VariantResult
from ors_server.audit.audited_server import AuditedServer, open_audited
from ors_server.audit.hack_classes import HACK_CLASSES
from ors_server.audit.judgement import TOLERANCE, AuditVerdict
from ors_server.audit.plays import Call, CallPlan
from ors_server.audit.policies import POLICIES
from ors_server.audit.policy import BUDGET, AuditPolicy, NotJudgedError
from ors_server.audit.preparing import prepare
from ors_server.audit.report import (
    AuditFinding,
    AuditReport,
    AuditTranscript,
    ClassReport,
    PolicyScore,
    TranscriptCall,
)
from ors_server.audit.static_rules import find_suspicious
from ors_server.audit.task_findings import CLASSES, with_task_findings
from ors_server.evaluation.intervals import wilson
from ors_server.model.errors import OrsServerError

MAX_ROUNDS = 6
MAX_WHOLE_CHARACTERS = 3
"""Characters of a text that is not made shorter."""


async def minimise(
    player: AuditPlayer,
    plan: CallPlan,
    least: float,
    is_dishonest: Callable[[CallPlan], bool] = lambda _: True,
    *,
    keeps_texts: bool = False,
) -> CallPlan:
    """Return the shortest play found that still earns at least as much.

    Args:
        least: The return that it must earn.
        is_dishonest: Whether a play still is not a right answer.
        keeps_texts: Whether only whole calls may be left out, because their texts make the finding.
    """
    best = plan
    for _ in range(MAX_ROUNDS):
        # A shorter answer may be the right one, such as 4 instead of 42: such a play would show nothing.
        shorter = [play for play in _shorter(best, keeps_texts=keeps_texts) if is_dishonest(play)]
        if not shorter:
            return best
        results = await player.play(shorter)
        winning = [
            play
            for play, played in zip(shorter, results, strict=True)
            if played.is_answered and not played.refused and played.total >= least
        ]
        if not winning:
            return best
        best = min(winning, key=_size)
    return best


def _size(plan: CallPlan) -> tuple[int, int]:
    return len(plan.calls), sum(len(str(arguments)) for _, arguments in plan.calls)


def _shorter(plan: CallPlan, *, keeps_texts: bool) -> list[CallPlan]:
    """Return plays without a part of the calls, and with a shorter text."""
    calls = plan.calls
    shortened: list[tuple[Call, ...]] = []
    # Large pieces first: removing half of the calls at once saves most of the plays.
    for size in dict.fromkeys((len(calls) // 2, len(calls) // 4, 1)):
        if size and len(calls) > 1:
            shortened += [calls[:at] + calls[at + size :] for at in range(0, len(calls), size)]
    for at, (tool, arguments) in () if keeps_texts else enumerate(calls[:5]):
        for path, value in leaves(arguments):
            if isinstance(value, str) and len(value) > MAX_WHOLE_CHARACTERS:
                for text in _pieces(value):
                    changed: Any = with_value(arguments, path, text)
                    shortened.append((*calls[:at], (tool, changed), *calls[at + 1 :]))
    # All of them are played, so their number is bounded.
    return [plan.with_calls(calls) for calls in shortened[:40]]


def _pieces(text: str) -> list[str]:
    half, quarter = len(text) // 2, len(text) // 4
    lines = text.split("\n")
    pieces = [
        "",
        text[:half],
        text[half:],
        text[quarter : 3 * quarter],
        text[: -quarter or None],
        text[quarter:],
    ]
    if len(lines) > 1:
        pieces += ["\n".join(lines[:at] + lines[at + 1 :]) for at in range(len(lines))][:8]
    return [piece for piece in dict.fromkeys(pieces) if piece != text]


async def record_transcripts(
    report: AuditReport, environment: str | type, name: str | None, record: str
) -> AuditReport:
    """Play the first transcript of each class again, as an episode with the label `audit`.

    Args:
        environment: What was audited, as for `audit`.
        name: The environment's name, where there are several.
        record: A SQLite file or a `postgresql://` URL.

    Returns:
        The report, in which those transcripts name the command that replays them.
    """
    async with open_audited(environment, name, store=record) as server:
        reports = [
            _with_command(class_report, report.environment, record, server.reference)
            for class_report in report.classes
        ]
        plays = [
            CallPlan(
                transcript.split,
                transcript.index,
                tuple((call.tool, call.arguments) for call in transcript.calls),
                transcript.seed,
                label=class_report.id,
            )
            for class_report in reports
            if (transcript := _first(class_report)) is not None
        ]
        await AuditPlayer(server).play_in_turn(plays)
    return report.model_copy(update={"classes": tuple(reports)})


def _first(report: ClassReport) -> AuditTranscript | None:
    return report.findings[0].transcript if report.findings else None


def _with_command(report: ClassReport, environment: str, record: str, reference: str) -> ClassReport:
    transcript = _first(report)
    if transcript is None:
        return report
    words = ["ors-server", "replay", "--store", record, "--label", f"audit={report.id}"]
    words += ["--environment-name", environment, "--environment", reference]
    shown = transcript.model_copy(update={"replay": shlex.join(words)})
    first = report.findings[0].model_copy(update={"transcript": shown})
    return report.model_copy(update={"findings": (first, *report.findings[1:])})


VARIANT = "the source"
"""What findings in the source name as their policy."""


def with_source_findings(
    reports: Sequence[ClassReport], source: Mapping[str, Any] | None, only: frozenset[str] = frozenset()
) -> list[ClassReport]:
    """Add what the rules find in the source of the environment's class.

    A class that failed gets the findings as evidence. Any other class becomes a warning: the source alone
    proves nothing, because no play earned anything with it.

    Args:
        source: The class's `file`, `line` and name (`class`); `None` if the source is not known.
        only: Ids of the classes that are judged; all by default.
    """
    if source is None:
        return list(reports)
    by_class = {report.id: report for report in reports}
    for suspicious in find_suspicious(Path(str(source["file"])), str(source["class"])):
        if only and suspicious.hack_class not in only:
            continue
        before = by_class.get(suspicious.hack_class) or ClassReport(
            id=suspicious.hack_class, verdict=AuditVerdict.NOT_JUDGED
        )
        finding = AuditFinding(
            verdict=AuditVerdict.WARN,
            variant=VARIANT,
            message=suspicious.message,
            file=str(source["file"]),
            line=suspicious.line,
        )
        # The source is evidence: it makes a class no better, and of itself no worse than a warning.
        verdict = max(before.verdict, AuditVerdict.WARN, key=lambda candidate: candidate.weight)
        changes = {"verdict": verdict, "findings": (*before.findings, finding)}
        by_class[suspicious.hack_class] = before.model_copy(update=changes)
    return sorted(by_class.values(), key=lambda class_report: HACK_CLASSES[class_report.id].number)


class TimeBudget:
    """Seconds that an audit may take; what runs when they are over is cancelled."""

    def __init__(self, seconds: float | None) -> None:
        """Begin to count.

        Args:
            seconds: All that may be spent; `None` for no limit.
        """
        self.deadline = float("inf") if seconds is None else time.monotonic() + seconds
        """On the monotonic clock."""

    @property
    def left(self) -> float:
        """Seconds that are left, at least 0; infinite without a limit."""
        return max(self.deadline - time.monotonic(), 0.0)

    def share(self, parts: int) -> float:
        """Return the seconds of one of several parts that are still to come."""
        return self.left / parts

    @contextmanager
    def limit(self, seconds: float) -> Generator[None]:
        """Cancel the body after some seconds, and no later than at the end of the budget.

        Raises:
            BudgetOverError: If it was cancelled.
        """
        if self.left <= 0:
            raise BudgetOverError
        with anyio.move_on_after(min(seconds, self.left)) as scope:
            yield
        if scope.cancelled_caught:
            raise BudgetOverError


MAX_SHOWN_SCORES = 5
"""Variants of each policy that a report names."""
MAX_SHOWN_FINDINGS = 3
"""Findings of a policy that are made shorter, and killed plays that a report names."""
OUT_OF_TIME = "the audit's time was over"
MAX_OVERRUN = 1.5
"""Part of its share of the time after which a policy is cancelled."""
MIN_TURN_SECONDS = 10.0
"""Seconds before which no policy is cancelled, unless the whole time is over."""


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """How an audit is run."""

    tasks: int | None = None
    """Tasks of each split that are played: 30 by default, 10 with a sandbox or a resource."""
    plays_all: bool = False
    """Whether to play every task."""
    only: frozenset[str] = frozenset()
    """Ids of the classes that are judged; all by default."""
    seed: int = 0
    """Of all sessions and of everything random."""
    budget: float | None = None
    """Seconds after which what is left is not judged."""
    uses_gold: bool = True
    """Whether `gold_actions` may be used."""
    api_key: str | None = None
    """For a URL: a trainer's."""
    record: str | None = None
    """Where the transcripts are recorded as episodes: a SQLite file or a `postgresql://` URL."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an audit is."""

    hack_class: str | None
    """The id of the class that is judged now; `None` while the audit is prepared."""
    verdicts: tuple[ClassReport, ...]
    """Of the classes that have been judged."""
    plays: int


async def audit(
    environment: str | type,
    options: AuditOptions | None = None,
    *,
    name: str | None = None,
    on_progress: Callable[[Progress], None] = lambda _: None,
) -> AuditReport:
    """Audit an environment.

    Args:
        environment: A reference as for the command line, a class at the top level of a module, or a
            server's URL.
        options: How it is run.
        name: The environment's name, where there are several.
        on_progress: Called before each class, and after each batch of its plays.

    Raises:
        AuditError: If it does not load or has no task.
        OrsServerError: If a server cannot be reached.
    """
    chosen = options or AuditOptions()
    budget = TimeBudget(chosen.budget)
    async with open_audited(environment, name, api_key=chosen.api_key, seconds=chosen.budget) as server:
        player = AuditPlayer(server, budget.deadline)
        report = await _audit(server, player, budget, chosen, on_progress)
    if chosen.record is None or server.process is None:
        return report
    return await record_transcripts(report, environment, name, chosen.record)


async def _audit(
    server: AuditedServer,
    player: AuditPlayer,
    budget: TimeBudget,
    options: AuditOptions,
    on_progress: Callable[[Progress], None],
) -> AuditReport:
    reports: list[ClassReport] = []
    policies = [kind for kind in POLICIES if not options.only or kind.hack_class in options.only]
    player.on_progress = partial(_announce, on_progress, None, ())
    try:
        with budget.limit(budget.left):
            context = await prepare(
                server,
                player,
                tasks=options.tasks,
                plays_all=options.plays_all,
                seed=options.seed,
                uses_gold=options.uses_gold,
            )
    except BudgetOverError:
        context = AuditContext(server, player, (), {})
        reports = [_out_of_time(kind.hack_class) for kind in policies]
        policies = []
    reports += await _judge_all(context, policies, budget, on_progress)
    facts = server.facts
    reports = with_source_findings(reports, facts.source, options.only)
    compared: dict[str, str] = {}
    if time.monotonic() <= player.deadline and (not options.only or options.only & CLASSES):
        compared = await player.server.compare_tasks()
    reports = with_task_findings(reports, compared, options.only)
    # Findings in the source need no play, so that an audit without time still has them.
    killed = [
        f"task {plan.index}: the process hung or ended at {plan.calls[-1:]!s:.200}"
        for plan in player.killed[:MAX_SHOWN_FINDINGS]
    ]
    return AuditReport(
        environment=facts.name,
        version=facts.version,
        target=server.reference,
        source_file=None if facts.source is None else str(facts.source["file"]),
        source_line=None if facts.source is None else int(facts.source["line"]),
        tasks=len(context.tasks),
        seed=options.seed,
        gold_return=context.scale.full if context.has_gold else None,
        chance=context.chance,
        classes=tuple(
            _with_causes(sorted(reports, key=lambda class_report: HACK_CLASSES[class_report.id].number))
        ),
        rewards=facts.rewards,
        notes=(
            *context.notes,
            *killed,
            *([compared[""]] if "" in compared else []),
        ),
    )


async def _judge_all(
    context: AuditContext,
    policies: Sequence[type[AuditPolicy]],
    budget: TimeBudget,
    on_progress: Callable[[Progress], None],
) -> list[ClassReport]:
    """Return the reports of policies, which are asked in turn, but for those that play in another process.

    Each gets its share of the time. One that needs more is asked again with what the others left: what it has
    played is not played again.
    """
    reports: dict[str, ClassReport] = {}
    player = context.player
    apart = [kind for kind in policies if kind.has_own_process and context.server.process is not None]

    async def judge_apart(kind: type[AuditPolicy]) -> None:
        reports[kind.hack_class] = await _judge(kind(), context, budget, budget.left)

    async def judge_in_turn(kinds: Sequence[type[AuditPolicy]]) -> None:
        for number, kind in enumerate(kinds):
            player.on_progress = partial(_announce, on_progress, kind.hack_class, tuple(reports.values()))
            player.on_progress(player.played)
            share = budget.share(len(kinds) - number)
            player.turn_ends = time.monotonic() + share
            # A policy stops by itself between two batches of plays. What does not is cancelled, which ends
            # the process, so that the next policy has to start it again.
            limit = max(MAX_OVERRUN * share, MIN_TURN_SECONDS)
            reports[kind.hack_class] = await _judge(kind(), context, budget, limit)

    here = [kind for kind in policies if kind not in apart]
    async with anyio.create_task_group() as tasks:
        for kind in apart:
            tasks.start_soon(judge_apart, kind)
        await judge_in_turn(here)
        await judge_in_turn([kind for kind in here if reports[kind.hack_class].reason == OUT_OF_TIME])
    return list(reports.values())


def _announce(
    on_progress: Callable[[Progress], None],
    hack_class: str | None,
    verdicts: tuple[ClassReport, ...],
    plays: int,
) -> None:
    on_progress(Progress(hack_class, verdicts, plays))


def _out_of_time(hack_class: str) -> ClassReport:
    return ClassReport(id=hack_class, verdict=AuditVerdict.NOT_JUDGED, reason=OUT_OF_TIME, missing=BUDGET)


async def _judge(
    policy: AuditPolicy, context: AuditContext, budget: TimeBudget, seconds: float
) -> ClassReport:
    end = time.monotonic() + seconds
    try:
        with budget.limit(seconds):
            policy.check(context)
            results = list(await policy.examine(context))
    except BudgetOverError:
        return _out_of_time(policy.hack_class)
    except NotJudgedError as error:
        return ClassReport(
            id=policy.hack_class,
            verdict=AuditVerdict.NOT_JUDGED,
            reason=str(error),
            missing=error.missing,
        )
    except OrsServerError as error:
        reason = f"{error.code}: {error}"
        return ClassReport(id=policy.hack_class, verdict=AuditVerdict.NOT_JUDGED, reason=reason)
    worst = AuditVerdict.NOT_JUDGED  # where no variant fits
    verdict = max(
        (result.verdict for result in results), key=lambda candidate: candidate.weight, default=worst
    )
    return ClassReport(
        id=policy.hack_class,
        verdict=verdict,
        reason="" if results else "nothing in this environment can be played that way",
        findings=tuple(await _findings(context, results, budget, end)),
        scores=tuple(_scores(results)),
    )


async def _findings(
    context: AuditContext, results: Sequence[VariantResult], budget: TimeBudget, end: float
) -> list[AuditFinding]:
    """Return the worst findings; the calls of the first are made as short as the time until `end` allows."""
    flagged = [result for result in results if result.verdict in {AuditVerdict.FAIL, AuditVerdict.WARN}]
    flagged.sort(
        key=lambda result: (
            -result.verdict.weight,
            -(result.share or 0.0),
            len(result.play.calls) if result.play else 0,
        )
    )
    findings: list[AuditFinding] = []
    for rank, result in enumerate(flagged[:MAX_SHOWN_FINDINGS]):
        play = result.play
        # Only the first finding is made shorter, because each round of that costs up to 40 plays.
        if play is not None and rank == 0 and result.share is not None and result.earned is not None:
            # Where the time is over, or a play fails, the calls stay as long as they are.
            with suppress(BudgetOverError, OrsServerError), budget.limit(end - time.monotonic()):
                play = await _minimised(context, result, play)
        findings.append(
            AuditFinding(
                verdict=result.verdict,
                variant=result.variant,
                message=result.message.encode(errors="replace").decode(),
                transcript=None if play is None else _transcript(context, result, play),
                rewards=tuple(reward.name for reward in context.facts.rewards),
            )
        )
    return findings


async def _minimised(context: AuditContext, variant_result: VariantResult, play: CallPlan) -> CallPlan:
    (result,) = await context.player.play([play])
    # Calls after the end of the episode were never made.
    if result.finished:
        play = play.with_calls(play.calls[: len(result.rewards)])
    if not result.is_answered or result.total <= context.scale.zero:
        return play
    (result,) = await context.player.play([play])
    slot = context.slot

    def still_shows_it(shorter: CallPlan) -> bool:
        keeps = (
            not variant_result.keeps_texts
            or slot is None
            or slot.core(shorter.calls) == slot.core(play.calls)
        )
        return keeps and variant_result.still_shows(shorter) and context.is_dishonest(shorter)

    # Sums of the same rewards in another order may differ by rounding.
    least = result.total - TOLERANCE
    return await minimise(context.player, play, least, still_shows_it, keeps_texts=variant_result.keeps_texts)


def _transcript(context: AuditContext, result: VariantResult, play: CallPlan) -> AuditTranscript:
    played = context.player.recall(play)
    # A result without a share has its own figure, such as a single reward, which the calls do not add up
    # to.
    earned = result.earned if result.share is None or played is None else played.total
    return AuditTranscript(
        split=play.split,
        index=play.index,
        seed=play.seed,
        calls=tuple(TranscriptCall(tool=tool, arguments=arguments) for tool, arguments in play.calls),
        earned=earned,
        gold_return=result.compared,
    )


def _scores(results: Sequence[VariantResult]) -> list[PolicyScore]:
    ranked = sorted(
        results,
        key=lambda result: (
            -result.verdict.weight,
            -(result.share if result.share is not None else -9e9),
        ),
    )
    return [_score(result) for result in ranked[:MAX_SHOWN_SCORES]]


def _score(result: VariantResult) -> PolicyScore:
    # A share outside of [0, 1] is not a proportion, so that it has no Wilson interval.
    bounded = result.share is not None and 0.0 <= result.share <= 1.0 and result.tasks > 0
    interval = wilson(result.share, result.tasks) if bounded and result.share is not None else None
    return PolicyScore(
        variant=result.variant,
        verdict=result.verdict,
        tasks=result.tasks,
        mean=result.earned,
        share=result.share,
        low=None if interval is None else interval.low,
        high=None if interval is None else interval.high,
    )


def _with_causes(reports: Sequence[ClassReport]) -> list[ClassReport]:
    """Name, for each failure that the same calls show as an earlier one, that one as its cause."""
    seen: dict[str, str] = {}
    named: list[ClassReport] = []
    for report in reports:
        cause = None
        if (
            report.verdict is AuditVerdict.FAIL
            and report.findings
            and report.findings[0].transcript is not None
        ):
            key = repr([(call.tool, call.arguments) for call in report.findings[0].transcript.calls])
            first = seen.setdefault(key, report.id)
            cause = None if first == report.id else first
        named.append(report.model_copy(update={"cause": cause}))
    return named
