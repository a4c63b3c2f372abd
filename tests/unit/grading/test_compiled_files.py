"""Compiled files that an agent leaves beside its modules count for nothing."""

import pytest

from ors_server.grading.cases import FunctionCase, StdioCase
from ors_server.grading.function_cases import grade_functions
from ors_server.grading.pytest_cases import grade_pytest
from ors_server.grading.stdio_cases import PythonProgram, grade_stdio

FILES = {
    "solution.py": "import helper\n\ndef answer(): return ['compiled', helper.VALUE]\n"
    "if __name__ == '__main__': print(*answer())\n",
    "helper.py": "VALUE = 'compiled'\n",
}
PLANT = (
    "python3 -m compileall -q --invalidation-mode unchecked-hash . && sed -i s/compiled/source/ *.py"
    " && test \"$(python3 -c 'import solution; print(*solution.answer())')\" = 'compiled compiled'"
)
"""Compiles the files, changes them, and sees to it that Python then prefers what was compiled."""


@pytest.fixture
async def evidence(look_at):
    async with look_at(FILES, PLANT) as evidence:
        yield evidence


async def test_a_function_is_judged_by_its_source(evidence):
    cases = [FunctionCase((), expected=["source", "source"])]
    assert (await grade_functions(evidence, "solution.py", "answer", cases)).is_perfect


async def test_a_program_is_judged_by_its_source(evidence):
    cases = [StdioCase("", "source source\n")]
    assert (await grade_stdio(evidence, PythonProgram("solution.py"), cases)).is_perfect


async def test_a_module_of_hidden_tests_is_judged_by_its_source(evidence):
    tests = {"test_it.py": "import solution\n\ndef test_it(): assert solution.answer() == ['source'] * 2\n"}
    assert (await grade_pytest(evidence, tests, modules=["solution"])).is_perfect
