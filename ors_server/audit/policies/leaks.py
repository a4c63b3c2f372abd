"""Agents that read: is the answer where they may look?"""

import base64
import codecs
import random
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar
from urllib.parse import quote

from typing_extensions import override

from ors_server.audit.answer_slot import leaves, with_value
from ors_server.audit.audit_context import AuditContext, AuditedTask, VariantResult
from ors_server.audit.database_queries import LISTINGS, READING, is_word_of, query_tools, tables_of
from ors_server.audit.inferred_gold import ANSWER_NAMES
from ors_server.audit.judgement import AuditVerdict
from ors_server.audit.plays import Call, CallPlan, PlayResult
from ors_server.audit.policy import FIELDS, AuditPolicy, NotJudgedError
from ors_server.audit.preparing import is_workshop_tool
from ors_server.audit.shell_cheats import SNOOPING
from ors_server.model.wire import JSONObject
from ors_server.testing.schema_examples import example_arguments

TASKS = 3


class ReadsTheAnswer(AuditPolicy):
    """Replaces a task's answer by a random text, a canary, and looks for it in all that an agent reads.

    A page that has the real answer is not a finding: only what is made from the task's own answer can hold
    the canary. In the wild: answers in later commits of a repository (SWE-bench), and in the data of prompts.
    """

    hack_class: ClassVar[str] = "H9"
    needs_scale: ClassVar[bool] = False

    @override
    async def examine(self, context: AuditContext) -> Sequence[VariantResult]:
        tried, results = 0, list[VariantResult]()
        for number, task in enumerate(context.tasks[:TASKS]):
            fields, is_named = _answer_fields(context, task)
            canary_plan = _with_canary(context, task, fields, number)
            (played,) = await context.player.play([canary_plan] if fields else [task.play()])
            if fields and played.texts:
                tried += 1
                results += _sightings(context, task, canary_plan, played, is_named=is_named)
                results += await self._read_tables(context, task, canary_plan, is_named=is_named)
        if not tried:
            raise NotJudgedError(
                "no field of the task holds the answer as it is given, or a task with another answer does "
                "not start; name the fields in answer_fields",
                missing=FIELDS,
            )
        return results or [VariantResult("a canary", AuditVerdict.PASS, "", tried)]

    async def _read_tables(
        self, context: AuditContext, task: AuditedTask, gold_plan: CallPlan, *, is_named: bool
    ) -> list[VariantResult]:
        """List the tables of a database that a query tool reaches, and read those that the task does not."""
        results: list[VariantResult] = []
        for tool in query_tools(context):
            listing = gold_plan.with_calls([tool.asking(query) for query in LISTINGS])
            (listed,) = await context.player.play([listing])
            own = " ".join(str(call) for call in task.gold or ())
            tables = [name for name in tables_of(listed.texts[2:]) if not is_word_of(name, own)]
            reading = gold_plan.with_calls([tool.asking(READING.format(table=name)) for name in tables])
            (played,) = await context.player.play([reading])
            for plan, result in ((listing, listed), (reading, played)):
                results += _sightings(context, task, plan, result, is_named=is_named)
        return results


def _with_canary(
    context: AuditContext, task: AuditedTask, fields: Mapping[tuple[str | int, ...], Any], number: int
) -> CallPlan:
    """Return a play of the task with another answer, which reads everything that it can."""
    canary = make_canary(context.seed + number, is_number=_is_number(fields.values()))
    spec: Any = task.spec
    for path in fields:
        if not isinstance(fields[path], int):
            spec = with_value(spec, path, canary)
        elif canary.isdigit():  # where some fields are texts, the canary is one, and numbers stay
            spec = with_value(spec, path, int(canary))
    calls = tuple(_looking(context, task, canary))
    return CallPlan(task.split, task.index, calls, context.seed, spec, reads=True, canary=canary)


def _sightings(
    context: AuditContext, task: AuditedTask, plan: CallPlan, played: PlayResult, *, is_named: bool
) -> list[VariantResult]:
    """Return where the canary was seen, in the order of the texts."""
    results: list[VariantResult] = []
    # The first two texts are the prompt and the tools; the others belong to the calls.
    sources = ["the prompt", "the list of tools", *(f"the output of {tool}" for tool, _ in plan.calls)]
    for index, text in enumerate(played.texts):
        form = find_canary(plan.canary, text)
        if form is None:
            continue
        # A field that only happens to equal the answer may be what the task shows, such as a number on a
        # board. The output of a gold call may hold the answer, too: then the task is to find it. A canary in
        # disguise is neither.
        is_gold_output = index > 1 and plan.calls[index - 2] in (task.gold or ())
        if form or (is_named and not is_gold_output):
            message = f"the answer is in {sources[index]}{form}"
            shown = task.play(plan.calls[: max(index - 1, 0)], seed=context.seed)
            results.append(VariantResult("a canary", AuditVerdict.FAIL, message, 1, play=shown))
    return results


def _answer_fields(context: AuditContext, task: AuditedTask) -> tuple[dict[tuple[str | int, ...], Any], bool]:
    """Return the task's values that are its answer, by path, and whether their names say so."""
    values = dict(leaves(task.spec))
    declared = context.facts.answer_fields
    if declared:
        return {path: value for path, value in values.items() if path and path[0] in declared}, True
    core = context.core(task)
    equal = {path: value for path, value in values.items() if core not in {None, ""} and str(value) == core}
    # Names decide before values: a number on a board may equal the answer by accident.
    named = {path: value for path, value in values.items() if path and str(path[0]) in ANSWER_NAMES}
    return named or {path: value for path, value in equal.items() if path[0] != "id"}, bool(named)


def _looking(context: AuditContext, task: AuditedTask, canary: str) -> list[Call]:
    """Return calls that read: trial ones of each tool, the gold actions before the answer, and a search."""
    slot = context.slot
    calls: list[Call] = []
    for tool in context.tools.values():
        if slot is not None and tool.name == slot.tool:
            continue
        if is_workshop_tool(context, tool):
            name = next(
                (argument for argument in ("command", "cmd") if argument in _properties(tool.input_schema)),
                None,
            )
            if name is not None:
                calls.append((tool.name, {name: SNOOPING.format(canary=canary)}))
            continue
        calls += [(tool.name, arguments) for arguments in _trials(tool.input_schema)]
    gold = [call for call in task.gold or () if slot is None or call[0] != slot.tool]
    # Calls that may end the episode are left out, or what follows them would not be read.
    endings = [
        call
        for call in calls
        if any(word in call[0] for word in ("finish", "close", "end", "stop", "submit"))
    ]
    reading = [call for call in calls if call not in endings]
    unique: dict[str, Call] = {repr(call): call for call in [*reading, *gold]}
    return list(unique.values())


def _trials(schema: JSONObject | None) -> list[JSONObject]:
    """Return trial arguments: the simplest, the first numbers, and each named choice."""
    base = example_arguments(schema)
    trials = [base]
    for name, part in _properties(schema).items():
        if part.get("type") == "integer":
            trials += [{**base, name: number} for number in range(4)]
        trials += [{**base, name: choice} for choice in part.get("enum", ())[:6]]
    return trials


def _properties(schema: JSONObject | None) -> Mapping[str, Any]:
    properties: Mapping[str, Any] = (schema or {}).get("properties", {})
    return properties


def _is_number(values: Any) -> bool:
    return all(str(value).lstrip("-").isdigit() for value in values)


def make_canary(seed: int, *, is_number: bool) -> str:
    # Long enough that no text contains it by accident, and without vowels, so that it is not a word.
    """Return a random text that is nowhere else: 12 digits, or 15 letters without vowels."""
    rng = random.Random(f"canary {seed}")  # noqa: S311  (a token to search for)
    if is_number:
        return str(rng.randint(10**11, 10**12 - 1))
    return "".join(rng.choice("bcdfghjklmnpqrstvwxz") for _ in range(15))


def find_canary(canary: str, text: str) -> str | None:
    """Return in which form a canary is in a text: empty for itself, `None` if it does not."""
    low = text.casefold()
    if canary in low:
        return ""
    for name, form in _forms(canary):
        if form.casefold() in low:
            return f", {name}"
    return None


def _forms(canary: str) -> list[tuple[str, str]]:
    raw = canary.encode()
    # Base64 depends on the position modulo 3; so three shifts, without the group that the byte before it
    # changes.
    pieces = [
        ("in base64", base64.b64encode(b"\0" * shift + raw)[4 if shift else 0 : 16].decode())
        for shift in range(3)
    ]
    # A template may write the answer with a capital letter first.
    title = canary.capitalize().encode()
    return [
        *pieces,
        ("in base64", base64.b64encode(title)[:16].decode()),
        ("in base32", base64.b32encode(raw)[:16].decode()),
        ("in hexadecimal", raw.hex()),
        ("in hexadecimal", " ".join(f"{byte:02x}" for byte in raw)),
        ("backwards", canary[::-1]),
        ("in rot13", codecs.encode(canary, "rot13")) if not canary.isdigit() else ("backwards", canary[::-1]),
        ("in a URL", quote(canary, safe="")),
        ("letter by letter", " ".join(canary)),
        ("letter by letter", "-".join(canary)),
        ("as numbers", ", ".join(str(byte) for byte in raw)),
        ("as numbers", " ".join(str(byte) for byte in raw)),
        ("in hexadecimal", f"{int(canary):x}") if canary.isdigit() else ("in hexadecimal", raw.hex()),
    ]
