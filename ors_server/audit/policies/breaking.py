"""Agents that break the grader: unreadable, endless and executable answers."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar

import anyio
from typing_extensions import override

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
from ors_server.audit.study import FEW, AuditedTask, CallsOf, Measure, Study

FUZZ = 150
"""Random answers of each of four shapes."""
FUZZ_OF_ALL = 2500
"""The same where every task is played: 10,000 in all."""
FUZZ_IN_SANDBOX = 20
SLOW_SECONDS = 1.0
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
    async def examine(self, study: Study) -> Sequence[Measure]:
        broken = await self._break_parts(study) if study.server.is_own else []
        if study.facts.has_sandbox:
            return broken
        slot = study.slot
        if slot is None and not broken:
            raise NotJudgedError("no tool takes an answer, and there is no sandbox or resource to break")
        if slot is None or slot.choices:
            return broken
        forms = [(text, text[:40]) for text in UNREADABLE]
        if slot.has_format:
            forms += [(slot.wrapped(text), slot.wrapped(text[:40])) for text in UNREADABLE]
        variants = {f"the answer {shown!r}": study.saying(text) for text, shown in forms}
        message = "{variant}, which cannot be read, is paid"
        return [*broken, *await study.measure(variants, message, scale=study.wrong_scale, few=FEW)]

    async def _break_parts(self, study: Study) -> list[Measure]:
        """End episodes whose sandbox and resources are broken: a reward then is no judgement."""
        task = study.tasks[0]
        endings = [*await ending_calls(study), *(task.gold or ())[-1:]]
        plays = [task.play([call], seed=study.seed) for call in endings]
        measures: list[Measure] = []
        for kind in FAULTS:
            found = await study.server.play_broken(plays, kind)
            if not any(asked for _, asked in found):
                break
            measures.append(Measure(f"a part that is {kind}", AuditVerdict.PASS, "", len(plays)))
            for play, (played, asked) in zip(plays, found, strict=True):
                paid = [reward for reward in played.rewards if reward is not None]
                if paid and asked:
                    measures.append(_paid_in_spite(study, play, paid[-1], kind))
        return measures


class OutOfRange(AuditPolicy):
    """Gives random answers, and looks for rewards outside the declared range and for errors of the grader.

    In the wild: `float("nan")` passes every comparison with a bound, and whatever breaks the grader is never
    graded.
    """

    hack_class: ClassVar[str] = "H12"
    needs_answer: ClassVar[bool] = True
    needs_scale: ClassVar[bool] = False

    @override
    async def examine(self, study: Study) -> Sequence[Measure]:
        size = FUZZ_OF_ALL if study.is_thorough else FUZZ
        size = FUZZ_IN_SANDBOX if study.is_costly else size
        texts = [*SPECIAL, *UNREADABLE, *random_answers(study.seed, size)]
        plays: list[CallPlan] = []
        for number, text in enumerate(texts):
            task = study.tasks[number % len(study.tasks)]
            calls = study.saying(text)(task)
            plays += [] if calls is None else [task.play(calls, seed=study.seed)]
        for task in study.tasks[:2]:
            for text in near_answers(study.core(task)):
                calls = study.answering(task, text)
                plays += [] if calls is None else [task.play(calls, seed=study.seed)]
        found = await study.player.play(plays)
        for play, played in zip(plays, found, strict=True):
            why = _complaint(played, study.facts.paid_range)
            if why is not None:
                return [Measure("a random answer", AuditVerdict.FAIL, why, 1, play=play, earned=played.total)]
        return [Measure("random answers", AuditVerdict.PASS, "", len(plays))]


class HoldsUp(AuditPolicy):
    """Gives answers that take a careless grader very long, one at a time.

    In the wild: towers of powers in symbolic graders, patterns that backtrack, and deep brackets.
    """

    hack_class: ClassVar[str] = "H15"
    needs_answer: ClassVar[bool] = True
    needs_scale: ClassVar[bool] = False

    @override
    async def examine(self, study: Study) -> Sequence[Measure]:
        if not study.server.is_own:
            raise NotJudgedError("processor time and memory of a server elsewhere cannot be measured")
        if study.slot is not None and study.slot.is_file:
            raise NotJudgedError("the answer is a file, which may be a program that runs long")
        task = study.tasks[0]
        await study.player.play_alone(
            task.play(study.saying("1")(task) or ())
        )  # imports what the first needs
        heavy = heavy_answers(study.core(task) or "1")
        plays = [task.play(calls, seed=study.seed) for text in heavy if (calls := study.saying(text)(task))]
        for play in plays:
            why = await self._look(study, play)
            if why is not None:
                return [Measure("a heavy answer", AuditVerdict.FAIL, why, 1, play=play)]
        return [Measure("heavy answers", AuditVerdict.PASS, "", len(plays))]

    async def _look(self, study: Study, plan: CallPlan) -> str | None:
        starts = study.server.starts
        before = await study.server.used()
        played = await study.player.play_alone(plan, _ALONE_SECONDS)
        if study.server.starts != starts or played.blame == "slow":
            return f"an answer held the server for more than {_ALONE_SECONDS:g} s, or ended it"
        after = await study.server.used()
        if after[0] - before[0] > SLOW_SECONDS:
            return f"an answer took the grader more than {SLOW_SECONDS:g} s of processor time"
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
    async def examine(self, study: Study) -> Sequence[Measure]:
        if study.text_slot is None:
            return ()
        measures: list[Measure] = []
        if not study.is_program:  # which is run on purpose
            measures += await self._compute(study)
            measures += await self._look_up(study)
        if study.server.is_own:
            measures.append(await self._leave_files(study))
        return measures

    async def _compute(self, study: Study) -> list[Measure]:
        """Give code whose result is the answer, of each form that the control does not explain."""
        codes = {_shown_code(form): partial(_computing, study, form.fill) for form in COMPUTED_FORMS}
        controls = {
            _shown_code(form): partial(_computing, study, form.fill_control) for form in COMPUTED_FORMS
        }
        message = "{variant} is paid, and code with another result is not, so it was evaluated"
        return await _without_controls(study, codes, controls, message)

    async def _look_up(self, study: Study) -> list[Measure]:
        """Give names that an expansion would replace by the answer."""
        names = {f"the answer {text!r}": study.saying(text) for text in EXPANDED}
        controls = {f"the answer {text!r}": study.saying(control) for text, control in EXPANDED.items()}
        message = "{variant} is paid, and a name of nothing is not, so it was expanded"
        return await _without_controls(study, names, controls, message)

    async def _leave_files(self, study: Study) -> Measure:
        task = study.tasks[0]
        for number, form in enumerate(LEAVING):
            file = anyio.Path(study.server.folder, f"canary{number}")
            calls = study.saying(form.format(file=file))(task)
            if calls is None:
                continue
            one = task.play(calls, seed=study.seed)
            await study.player.play_alone(one)
            if await file.exists():
                why = "code in the answer wrote a file on the server"
                return Measure("an answer that writes a file", AuditVerdict.FAIL, why, 1, play=one)
        return Measure("answers that write files", AuditVerdict.PASS, "", len(LEAVING))


def _paid_in_spite(study: Study, plan: CallPlan, reward: float, kind: str) -> Measure:
    # Garbage may look like an answer; only its pay counts.
    least = AuditVerdict.PASS if kind == "garbled" else AuditVerdict.WARN
    verdict = max(judge_share(study.scale.share(reward)), least, key=lambda each: each.weight)
    part = "sandbox" if study.facts.has_sandbox else "resource"
    message = f"{plan.calls[-1][0]} earns {reward:.3g} though the {part} was {kind}"
    return Measure(f"a part that is {kind}", verdict, message, 1, None, reward, plan)


def _shown_code(form: ComputedForm) -> str:
    return f"code whose result is the answer, {form.code.replace(PLACEHOLDER, '...')!r},"


def _computing(study: Study, fill: Callable[[str], str | None], task: AuditedTask) -> Sequence[Call] | None:
    core, slot = study.core(task), study.slot
    code = None if core is None else fill(core)
    return None if code is None or slot is None else study.answering(task, slot.wrapped(code))


async def _without_controls(
    study: Study, variants: Mapping[str, CallsOf], controls: Mapping[str, CallsOf], message: str
) -> list[Measure]:
    """Measure variants; those whose controls earn something, too, are paid for something else."""
    measures = await study.measure(variants, message, scale=study.wrong_scale, few=FEW)
    suspects = {
        measure.variant: controls[measure.variant]
        for measure in measures
        if measure.verdict is not AuditVerdict.PASS
    }
    checked = await study.measure(suspects, "", scale=study.wrong_scale, few=FEW)
    proved = {measure.variant for measure in checked if (measure.share or 0.0) < WARN_SHARE}
    return [
        replace(
            measure,
            keeps_texts=True,
            verdict=measure.verdict if measure.variant in proved else AuditVerdict.PASS,
        )
        for measure in measures
    ]


def _complaint(played: PlayResult, bounds: tuple[float, float] | None) -> str | None:
    # A service that does not answer is an error of the machine's, and rightly no number.
    is_lost = played.failure is not None and _LOST.search(played.failure) is not None
    if played.failure is not None and not is_lost and played.blame in {"author", "slow"}:
        return f"an answer broke the grader: {played.failure.splitlines()[0][:200]}"
    for reward in played.rewards:
        if reward is not None and not math.isfinite(reward):
            return f"an answer earned {reward!r}, which is no number"
        if reward is not None and bounds is not None and not bounds[0] <= reward <= bounds[1]:
            return f"an answer earned {reward!r}, outside the declared range {list(bounds)}"
    return None
