"""A reward for the program in a completion: taken from its last fenced block, run in a separate sandbox.

The program never runs in this process: it is written into a fresh sandbox, and judged there as
`ors_server.rewards.evidence.code` judges a work dir.
"""

import itertools
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final, cast

from ors_server.grading.evidence import Evidence, gather_evidence
from ors_server.model.json_values import is_array
from ors_server.rewards.define import Reward, reward
from ors_server.rewards.evidence.code import code_functions_reward, code_pytest_reward, code_stdio_reward
from ors_server.rewards.reading.answer_text import find_answer, read_source
from ors_server.rewards.reading.fences import fenced_blocks
from ors_server.rewards.result import RewardResult, RewardStatus
from ors_server.sandboxes.base import Backend
from ors_server.sandboxes.choose import choose

MAX_PROGRAM: Final = 200_000
"""Characters of a program."""
LANGUAGES: Final = ("python", "python3", "py", "")
FILE: Final = "solution.py"
_NUMBERS = itertools.count(1)
_JUDGES: Final[Mapping[str, Reward]] = {
    "stdio": code_stdio_reward,
    "functions": code_functions_reward,
    "pytest": code_pytest_reward,
}


class BadTestsError(ValueError):
    """The tests of a task's row cannot be read."""


@reward(range=(0.0, 1.0))
async def code_completion_reward(
    final_response: str,
    tests: Any = None,
    verification_info: Mapping[str, Any] | str | None = None,
    backend: Backend | None = None,
    **options: Any,
) -> RewardResult:
    """Pays for a program that passes its tests: the last fenced Python block of a completion.

    Hazards: those of `code_stdio_reward`: few cases are guessed. A completion with several blocks is judged
    by the last one. Without a sandbox that isolates, the reward refuses to run anything.

    Reads: the text without its reasoning, so a draft in `<think>` is ignored.

    Source: the code rewards of open-r1 (`verification_info`), PRIME and verl (`inputs`, `outputs`,
    `fn_name`), with the graders of this library in place of an interpreter that also runs the tests.

    Args:
        tests: A list of cases with `stdin` and `stdout`, or with `arguments` and `expected` and then
            `function`; an object with `inputs`, `outputs` and perhaps `fn_name`; or the text of a pytest
            file, which imports the module `solution`. An object or a list may come as JSON text.
        verification_info: open-r1's column: `test_cases` with `input`, `output`, and perhaps `fn_name`.
        backend: Makes the sandboxes; by default the strongest that works here, found for each call. Pass one
            where many completions are judged.
        **options: `function`, `pays` (`all` or `fraction`) and `time_limit`, as for `code_functions_reward`.

    Returns:
        As `code_stdio_reward`. A completion without a closed block is `unparsed_answer`; tests that cannot be
        read are `bad_gold`. A missing or failing sandbox raises.

    Raises:
        SandboxUnavailableError: No sandbox that isolates works here.
        SandboxError: The sandbox failed.
    """
    try:
        kind, fields = _read_tests(tests, verification_info, options.get("function"))
        json.dumps(fields, ensure_ascii=False, default=repr).encode()
    except UnicodeEncodeError:
        return RewardResult.without(RewardStatus.BAD_GOLD, "the tests have half a surrogate pair")
    except BadTestsError as error:
        return RewardResult.without(RewardStatus.BAD_GOLD, str(error))
    answer = find_answer(final_response, read_source(None, "text"))
    blocks = fenced_blocks(answer.text, LANGUAGES)
    if not blocks or answer.problem is not None:
        reason = answer.problem or "expected a closed block of Python, between ```python and ```"
        return RewardResult(0.0, RewardStatus.UNPARSED_ANSWER, reason=reason)
    program = blocks[-1]
    if len(program) > MAX_PROGRAM:
        return RewardResult(0.0, reason=f"the program has more than {MAX_PROGRAM} characters")
    chosen: dict[str, Any] = {name: options[name] for name in ("pays", "time_limit") if name in options}
    judge = _JUDGES[kind]
    async with _sandbox_with_program(program, backend) as evidence:
        arguments: dict[str, Any] = {"evidence": evidence, **fields, **chosen}
        result = judge.read(await judge.judge(arguments))
    return replace(result, extras={**result.extras, "program_characters": len(program)})


@asynccontextmanager
async def _sandbox_with_program(program: str, backend: Backend | None) -> AsyncGenerator[Evidence]:
    """Make a sandbox with the program in it."""
    chosen = None if backend is not None else await choose()
    try:
        started = backend if chosen is None else chosen.backend
        sandbox = await cast("Backend", started).start(f"completion-{next(_NUMBERS)}")
        try:
            await sandbox.write_file(FILE, program.encode(errors="replace"))
            async with gather_evidence(sandbox, final=True) as evidence:
                yield evidence
        finally:
            await sandbox.aclose()
    finally:
        if chosen is not None:
            await chosen.aclose()


def _read_tests(
    tests: Any, info: Mapping[str, Any] | str | None, function: object
) -> tuple[str, dict[str, Any]]:
    if info is not None:
        read: Any = _from_json(info)
        cases = cast("Mapping[str, Any]", read).get("test_cases") if isinstance(read, Mapping) else None
        return _from_cases(_from_json(cases), function)
    value = _from_json(tests)
    if isinstance(value, str) and value.strip():
        return "pytest", {"tests": value}
    if isinstance(value, Mapping):
        return _from_columns(cast("Mapping[str, Any]", value), function)
    return _from_cases(value, function)


def _from_json(value: Any) -> Any:
    if isinstance(value, str) and value.lstrip()[:1] in {"[", "{"}:
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def _from_columns(columns: Mapping[str, Any], function: object) -> tuple[str, dict[str, Any]]:
    inputs, outputs = _as_list(columns.get("inputs")), _as_list(columns.get("outputs"))
    if not inputs or len(inputs) != len(outputs):
        raise BadTestsError("expected inputs and outputs of tests as lists of the same length")
    cases = [
        {"input": input_value, "output": expected}
        for input_value, expected in zip(inputs, outputs, strict=True)
    ]
    return _from_cases(cases, columns.get("fn_name") or function)


def _from_cases(cases: Any, function: object) -> tuple[str, dict[str, Any]]:
    listed = [_case(case) for case in _as_list(cases)]
    if not listed:
        raise BadTestsError(
            "no tests: expected a list of cases, inputs and outputs, or the text of a test file"
        )
    named = function or listed[0].get("fn_name")
    if any("arguments" in case for case in listed) or named:
        if not isinstance(named, str) or not named:
            raise BadTestsError("cases with arguments need the name of a function")
        return "functions", {"cases": [_as_call(case) for case in listed], "function": named, "file": FILE}
    return "stdio", {"cases": [_as_run(case) for case in listed], "program": FILE}


def _case(value: object) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise BadTestsError(f"expected a case as an object, got {value!r:.80}")
    return dict(cast("Mapping[str, Any]", value))


def _as_call(case: dict[str, Any]) -> dict[str, Any]:
    """Write a case of a function as the grader does; arguments are a list, or lines of JSON."""
    if "arguments" in case:
        return {name: value for name, value in case.items() if name not in {"fn_name", "type"}}
    arguments, expected = case.get("input"), case.get("output")
    if isinstance(arguments, str):
        arguments = [_parse_or_keep(line) for line in arguments.split("\n") if line.strip()]
    only = _as_list(expected)
    if len(only) == 1:
        expected = only[0]  # PRIME keeps what is returned in a list
    return {
        "arguments": arguments,
        "expected": _parse_or_keep(expected) if isinstance(expected, str) else expected,
    }


def _as_run(case: dict[str, Any]) -> dict[str, Any]:
    if "input" in case or "output" in case:
        return {"stdin": _text(case.get("input")), "stdout": _text(case.get("output"))}
    return {name: value for name, value in case.items() if name not in {"fn_name", "type"}}


def _as_list(value: Any) -> list[Any]:
    return list(value) if is_array(value) else []


def _text(value: Any) -> Any:
    if is_array(value):
        return "\n".join(str(line) for line in value)
    return "" if value is None else value


def _parse_or_keep(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
