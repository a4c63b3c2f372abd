"""Prepares an audit: reads tasks and tools, plays the gold actions, and finds out where the answer is."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ors_server.audit.answer_slot import AnswerSlot, find_slot, slot_of_schema
from ors_server.audit.audit_context import AuditContext, AuditedTask, AuditPlayer
from ors_server.audit.audited_server import AuditedServer, AuditError
from ors_server.audit.file_tools import find_file_tool
from ors_server.audit.inferred_gold import infer_gold, with_gold
from ors_server.audit.judgement import ASSUMED_MAX_RETURN, Scale, mean
from ors_server.audit.plays import Call, PlayResult
from ors_server.model.wire import JSONObject, ToolSpec
from ors_server.testing.environment_subject import spread

TASKS = 30
"""Tasks of each split that are played, unless more are asked for."""
TASKS_IN_SANDBOX = 10
"""The same with a sandbox or a resource."""
COMMAND_ARGUMENTS = frozenset({"command", "cmd", "code", "file_text", "patch", "input", "script"})
"""Arguments of tools that work on files or run programs: what they hold is not an answer by itself."""
_ANSWERING = ("submit", "answer", "final", "finish", "guess", "respond", "reply", "solve")
"""Words in the names of tools that take answers, the likeliest first."""


async def prepare(
    server: AuditedServer,
    player: AuditPlayer,
    *,
    tasks: int | None,
    plays_all: bool,
    seed: int,
    uses_gold: bool = True,
) -> AuditContext:
    """Return an environment ready for the policies.

    Args:
        tasks: Tasks of each split to play; `TASKS` by default, fewer with a sandbox.
        plays_all: Whether to play all tasks of every split.
        seed: Of all sessions.
        uses_gold: Whether gold actions may be used.

    Raises:
        AuditError: If there is no task.
    """
    own = TASKS_IN_SANDBOX if server.facts.is_costly else TASKS
    max_tasks = None if plays_all else (tasks or own)
    rows, notes = await _read_tasks(server, max_tasks, uses_gold=uses_gold)
    target = await server.listing()
    tools = {tool.name: tool for tool in target.tools}
    context = AuditContext(server, player, rows, tools, seed=seed, notes=notes, is_thorough=plays_all)
    if not notes and not any(task.gold is not None for task in rows):
        await _infer_gold(context)
    context.slot = _find_slot(context)
    golds = {at: task for at, task in enumerate(context.tasks) if task.gold is not None}
    # Wrong answers before the gold actions, which another session might remember.
    wrong = _mean_return(await context.player.play(context.plays_of(context.answering_wrongly)))
    results = await player.play([task.play(task.gold or (), seed=seed) for task in golds.values()])
    context.oracle = dict(zip(golds, results, strict=True))
    context.scale = _scale(context, wrong)
    context.wrong = context.scale.zero if wrong is None else wrong
    return context


async def _read_tasks(
    server: AuditedServer, max_tasks: int | None, *, uses_gold: bool
) -> tuple[list[AuditedTask], list[str]]:
    rows: list[AuditedTask] = []
    failures: list[str] = []
    for split, size in await server.splits():
        indices = spread(size, size if max_tasks is None else max_tasks)
        for index, row in zip(indices, await server.tasks(split, indices), strict=True):
            rows.append(AuditedTask(split, index, row.spec, row.gold if uses_gold else None))
            if row.error is not None:
                failures.append(f"task {index} of split {split!r}: {row.error}")
    if not rows:
        raise AuditError(f"{server.reference} has no task to play in any split")
    notes = [f"gold_actions failed for {len(failures)} tasks; {failures[0]}"] if failures else []
    return rows, notes


async def _infer_gold(context: AuditContext) -> None:
    """Find out which field of the tasks is the answer, where there are no gold actions."""
    named = [tool for tool in context.tools.values() if not is_workshop_tool(context, tool)]
    ranked = sorted(named, key=lambda tool: (_rank(tool.name), tool.name))
    field = await infer_gold(context, ranked)
    if field is None:
        return
    context.is_inferred = True
    context.tasks = with_gold(context.tasks, field)
    note = (
        f"there are no gold actions; the tasks' field {str(field)!r}, given to {field.slot.tool}, is paid "
        "like a right answer and was taken for it"
    )
    context.notes = (*context.notes, note)
    process = context.server.process
    if process is not None:  # what it might remember of the right answers would falsify the policies
        await process.restart(process.starts)


def _find_slot(context: AuditContext) -> AnswerSlot | None:
    schemas: dict[str, JSONObject | None] = {name: tool.input_schema for name, tool in context.tools.items()}
    ignored = frozenset(name for name, tool in context.tools.items() if is_workshop_tool(context, tool))
    golds = [task.gold for task in context.tasks if task.gold is not None]
    if golds:
        return find_slot(golds, schemas, ignored) or _find_file_slot(context, golds, schemas)
    slots = [
        slot_of_schema(name, schemas[name])
        for name in sorted(set(schemas) - ignored, key=_rank)
        if _rank(name) < len(_ANSWERING)
    ]
    return next((slot for slot in slots if slot is not None), None)


def _find_file_slot(
    context: AuditContext, golds: Sequence[Sequence[Call]], schemas: Mapping[str, JSONObject | None]
) -> AnswerSlot | None:
    """Return the content that the gold actions write to a file, where they give no other answer."""
    writer = find_file_tool(context.tools)
    if writer is None:
        return None
    slot = find_slot(golds, schemas, frozenset(schemas) - {writer.tool})
    if slot is None or slot.path != (writer.content_argument,):
        return None
    return replace(slot, before="", after="", is_file=True)


def _rank(name: str) -> int:
    """Return how likely a tool takes answers; the likeliest has 0."""
    return next((rank for rank, word in enumerate(_ANSWERING) if word in name), len(_ANSWERING))


def is_workshop_tool(context: AuditContext, tool: ToolSpec) -> bool:
    """Return whether a tool runs programs or works on files, so that its arguments are not answers."""
    # A toolset's tools work on files and run programs, except `submit`, which takes the answer.
    if tool.name in context.facts.toolset_tools:
        return tool.name != "submit"
    # The tool of the last gold call takes the answer even if its argument is called `code`.
    if "submit" in tool.name or any(task.gold and task.gold[-1][0] == tool.name for task in context.tasks):
        return False
    return bool(COMMAND_ARGUMENTS & set((tool.input_schema or {}).get("properties", {})))


def _scale(context: AuditContext, wrong: float | None) -> Scale:
    """Return the scale from nothing to the gold actions' mean return, or to what the class declares."""
    declared = context.facts.return_range or context.facts.reward_range
    least = None if declared is None else declared[0]
    full = _mean_return(list(context.oracle.values()))
    top = ASSUMED_MAX_RETURN if declared is None else declared[1]
    if full is None:
        # Without gold actions, the declared or assumed maximum counts as full.
        return Scale(max(0.0, least or 0.0), top)
    if context.is_inferred:  # another answer might earn more
        full = max(full, top)
    zero = max(0.0, least or 0.0)
    # Where the gold actions earn no more than nothing, the zero point is the least known return, so that
    # games with negative returns can be judged.
    if full <= zero:
        zero = min(value for value in (wrong, least, full) if value is not None)
    return Scale(zero, full)


def _mean_return(played: Sequence[PlayResult]) -> float | None:
    return mean([result.total for result in played]) if played else None
