"""Agents that break the grader: unreadable, endless and executable answers.

Every claim has a control: an unreadable answer is compared with a wrong one that can be read, code with code
of the same characters and another result, a broken part with the requests that it received. Without the
control, a grader that pays every answer would look like one that is broken in this special way.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import ClassVar

import anyio
from typing_extensions import override

from ors_server.audit.audit_context import (
    MANY_ANSWERS_TASKS,
    AuditContext,
    AuditedTask,
    CallsOf,
    VariantResult,
)
from ors_server.audit.audited_server import AuditedProcess
from ors_server.audit.broken_parts import FAULTS
from ors_server.audit.computed_answers import COMPUTED_FORMS, PLACEHOLDER, ComputedForm
from ors_server.audit.hostile_answers import (
    EXPANDED,
    LEAVING,
    SPECIAL,
    UNREADABLE,
    heavy_answers,
    near_answers,
    random_answers,
)
from ors_server.audit.judgement import WARN_SHARE, AuditVerdict, judge_share
from ors_server.audit.plays import Call, CallPlan, PlayResult
from ors_server.audit.policies.idle import ending_calls
from ors_server.audit.policy import AuditPolicy, NotJudgedError

FUZZ = 150
"""Random answers of each of four shapes."""
FUZZ_OF_ALL = 2500
"""The same where every task is played: 10,000 in all."""
FUZZ_IN_SANDBOX = 20
MAX_ANSWER_SECONDS = 1.0
"""Processor time for one answer above which a grader can be held up."""
MAX_BYTES = 256 << 20
_ALONE_SECONDS = 15.0
_LOST = re.compile(r"\b(TimeoutError|ConnectionError|Connection\w+Error|OSError|BrokenPipeError)\b")


class Unreadable(AuditPolicy):
    """Gives answers that the grader cannot read, and breaks the sandbox and the resources that it needs.

    In the wild: an `except` that returns the full reward, and services whose refusal counts as a pass. It
    compares with another task's answer, which can be read and is wrong.
    """

    hack_class: ClassVar[str] = "H11"

    @override
    async def examine(self, context: AuditContext) -> Sequence[VariantResult]:
        process = context.server.process
        broken = [] if process is None else await self._break_parts(context, process)
        if context.facts.has_sandbox:
            return broken
        slot = context.slot
        if slot is None and not broken:
            raise NotJudgedError("no tool takes an answer, and there is no sandbox or resource to break")
        # Among named choices, there is no unreadable answer.
        if slot is None or slot.choices:
            return broken
        forms = [(text, text[:40]) for text in UNREADABLE]
        if slot.has_format:
            forms += [(slot.wrapped(text), slot.wrapped(text[:40])) for text in UNREADABLE]
        variants = {f"the answer {shown!r}": context.saying(text) for text, shown in forms}
        message = "{variant}, which cannot be read, is paid"
        return [
            *broken,
            *await context.measure(
                variants, message, scale=context.wrong_scale, screened_tasks=MANY_ANSWERS_TASKS
            ),
        ]

    async def _break_parts(self, context: AuditContext, process: AuditedProcess) -> list[VariantResult]:
        """End episodes whose sandbox and resources are broken: a reward then is not a judgement."""
        task = context.tasks[0]
        endings = [*await ending_calls(context), *(task.gold or ())[-1:]]
        plays = [task.play([call], seed=context.seed) for call in endings]
        variant_results: list[VariantResult] = []
        for kind in FAULTS:
            results = await process.play_broken(plays, kind)
            # The end of an episode uses no such part here, so that the other faults would show the same.
            if not any(request_count for _, request_count in results):
                break
            variant_results.append(VariantResult(f"a part that is {kind}", AuditVerdict.PASS, "", len(plays)))
            for play, (played, request_count) in zip(plays, results, strict=True):
                paid = [reward for reward in played.rewards if reward is not None]
                # Without a request to the broken part, the reward was computed without it: not an accident.
                if paid and request_count:
                    variant_results.append(_paid_in_spite(context, play, paid[-1], kind))
        return variant_results


class OutOfRange(AuditPolicy):
    """Gives random answers, and looks for rewards outside the declared range and for errors of the grader.

    In the wild: `float("nan")` passes every comparison with a bound, and an answer that breaks the grader is
    never graded.
    """

    hack_class: ClassVar[str] = "H12"
    needs_answer: ClassVar[bool] = True
    needs_scale: ClassVar[bool] = False

    @override
    async def examine(self, context: AuditContext) -> Sequence[VariantResult]:
        size = FUZZ_OF_ALL if context.is_thorough else FUZZ
        size = FUZZ_IN_SANDBOX if context.is_costly else size
        texts = [*SPECIAL, *UNREADABLE, *random_answers(context.seed, size)]
        plays: list[CallPlan] = []
        for number, text in enumerate(texts):
            task = context.tasks[number % len(context.tasks)]
            calls = context.saying(text)(task)
            plays += [] if calls is None else [task.play(calls, seed=context.seed)]
        # Near answers need the right answer of the task, so that each is tried on a few tasks only.
        for task in context.tasks[:2]:
            for text in near_answers(context.core(task)):
                calls = context.answering(task, text)
                plays += [] if calls is None else [task.play(calls, seed=context.seed)]
        results = await context.player.play(plays)
        for play, played in zip(plays, results, strict=True):
            why = _complaint(played, context.facts.paid_range)
            if why is not None:
                return [
                    VariantResult(
                        "a random answer", AuditVerdict.FAIL, why, 1, play=play, earned=played.total
                    )
                ]
        return [VariantResult("random answers", AuditVerdict.PASS, "", len(plays))]


class HoldsUp(AuditPolicy):
    """Gives answers that take a careless grader very long, one at a time.

    In the wild: towers of powers in symbolic graders, patterns that backtrack, and deep brackets.
    """

    hack_class: ClassVar[str] = "H15"
    needs_answer: ClassVar[bool] = True
    needs_scale: ClassVar[bool] = False

    @override
    async def examine(self, context: AuditContext) -> Sequence[VariantResult]:
        process = context.server.process
        if process is None:
            raise NotJudgedError("processor time and memory of a server elsewhere cannot be measured")
        if context.slot is not None and context.slot.is_file:
            raise NotJudgedError("the answer is a file, which may be a program that runs long")
        task = context.tasks[0]
        # The first answer pays for imports and caches, which must not count as the time of a heavy answer.
        await context.player.play_alone(task.play(context.saying("1")(task) or ()))
        heavy = heavy_answers(context.core(task) or "1")
        plays = [
            task.play(calls, seed=context.seed) for text in heavy if (calls := context.saying(text)(task))
        ]
        for play in plays:
            why = await self._measure(context, process, play)
            if why is not None:
                return [VariantResult("a heavy answer", AuditVerdict.FAIL, why, 1, play=play)]
        return [VariantResult("heavy answers", AuditVerdict.PASS, "", len(plays))]

    async def _measure(self, context: AuditContext, process: AuditedProcess, plan: CallPlan) -> str | None:
        # Alone, because the figures are those of the whole process and must belong to this answer.
        starts = process.starts
        before = await process.used()
        played = await context.player.play_alone(plan, _ALONE_SECONDS)
        if process.starts != starts or played.blame == "slow":
            return f"an answer held the server for more than {_ALONE_SECONDS:g} s, or ended it"
        after = await process.used()
        if after[0] - before[0] > MAX_ANSWER_SECONDS:
            return f"an answer took the grader more than {MAX_ANSWER_SECONDS:g} s of processor time"
        if after[1] - before[1] > MAX_BYTES:
            return f"an answer took the grader more than {MAX_BYTES >> 20} MiB of memory"
        return None


class Executed(AuditPolicy):
    """Gives code whose result is the right answer, names that stand for it, and code that leaves a file.

    The answer is not written in the code, and code with another result is a control: a grader that only reads
    pays both or none. In the wild: `eval` and `sympify` on answers, and answers put into templates.
    """

    hack_class: ClassVar[str] = "H16"
    needs_answer: ClassVar[bool] = True

    @override
    async def examine(self, context: AuditContext) -> Sequence[VariantResult]:
        if context.text_slot is None:
            return ()
        results: list[VariantResult] = []
        if not context.is_program:  # a program is executed on purpose
            results += await self._compute(context)
            results += await self._look_up(context)
        if context.server.process is not None:
            results.append(await self._leave_files(context, context.server.process.folder))
        return results

    async def _compute(self, context: AuditContext) -> list[VariantResult]:
        """Give code whose result is the answer, of each form that the control does not explain."""
        codes = {_shown_code(form): partial(_computing, context, form.fill) for form in COMPUTED_FORMS}
        controls = {
            _shown_code(form): partial(_computing, context, form.fill_control) for form in COMPUTED_FORMS
        }
        message = "{variant} is paid, and code with another result is not, so it was evaluated"
        return await _without_controls(context, codes, controls, message)

    async def _look_up(self, context: AuditContext) -> list[VariantResult]:
        """Give names that an expansion would replace by the answer."""
        names = {f"the answer {text!r}": context.saying(text) for text in EXPANDED}
        controls = {f"the answer {text!r}": context.saying(control) for text, control in EXPANDED.items()}
        message = "{variant} is paid, and a name of nothing is not, so it was expanded"
        return await _without_controls(context, names, controls, message)

    async def _leave_files(self, context: AuditContext, folder: Path) -> VariantResult:
        task = context.tasks[0]
        for number, form in enumerate(LEAVING):
            file = anyio.Path(folder, f"canary{number}")
            calls = context.saying(form.format(file=file))(task)
            if calls is None:
                continue
            plan = task.play(calls, seed=context.seed)
            await context.player.play_alone(plan)
            if await file.exists():
                why = "code in the answer wrote a file on the server"
                return VariantResult("an answer that writes a file", AuditVerdict.FAIL, why, 1, play=plan)
        return VariantResult("answers that write files", AuditVerdict.PASS, "", len(LEAVING))


def _paid_in_spite(context: AuditContext, plan: CallPlan, reward: float, kind: str) -> VariantResult:
    # Garbage may look like an answer; only its pay counts.
    least = AuditVerdict.PASS if kind == "garbled" else AuditVerdict.WARN
    verdict = max(judge_share(context.scale.share(reward)), least, key=lambda candidate: candidate.weight)
    part = "sandbox" if context.facts.has_sandbox else "resource"
    message = f"{plan.calls[-1][0]} earns {reward:.3g} though the {part} was {kind}"
    return VariantResult(f"a part that is {kind}", verdict, message, 1, None, reward, plan)


def _shown_code(form: ComputedForm) -> str:
    return f"code whose result is the answer, {form.code.replace(PLACEHOLDER, '...')!r},"


def _computing(
    context: AuditContext, fill: Callable[[str], str | None], task: AuditedTask
) -> Sequence[Call] | None:
    core, slot = context.core(task), context.slot
    code = None if core is None else fill(core)
    return None if code is None or slot is None else context.answering(task, slot.wrapped(code))


async def _without_controls(
    context: AuditContext,
    variants: Mapping[str, CallsOf],
    controls: Mapping[str, CallsOf],
    message: str,
) -> list[VariantResult]:
    """Measure variants; those whose controls also earn something are paid for something else."""
    # If the control earns something, the code was not evaluated: its characters were paid.
    results = await context.measure(
        variants, message, scale=context.wrong_scale, screened_tasks=MANY_ANSWERS_TASKS
    )
    suspects = {
        result.variant: controls[result.variant]
        for result in results
        if result.verdict is not AuditVerdict.PASS
    }
    checked = await context.measure(
        suspects, "", scale=context.wrong_scale, screened_tasks=MANY_ANSWERS_TASKS
    )
    proved = {result.variant for result in checked if (result.share or 0.0) < WARN_SHARE}
    return [
        replace(
            result,
            keeps_texts=True,
            verdict=result.verdict if result.variant in proved else AuditVerdict.PASS,
        )
        for result in results
    ]


def _complaint(played: PlayResult, bounds: tuple[float, float] | None) -> str | None:
    # A service that does not answer is an error of the machine's, and has no reward, rightly.
    is_lost = played.failure is not None and _LOST.search(played.failure) is not None
    if played.failure is not None and not is_lost and played.blame in {"author", "slow"}:
        return f"an answer broke the grader: {played.failure.splitlines()[0][:200]}"
    for reward in played.rewards:
        if reward is not None and not math.isfinite(reward):
            return f"expected a number as the reward of an answer, got {reward!r}"
        if reward is not None and bounds is not None and not bounds[0] <= reward <= bounds[1]:
            return f"an answer earned {reward!r}, outside the declared range {list(bounds)}"
    return None
