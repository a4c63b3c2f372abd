"""One problem: its prompt and starting file, its solution, and its hidden cases."""

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

from ors_server_tasks.code.hidden import PROGRAM, Call, public_functions, record_calls, run_source
from ors_server_tasks.code.page import Page, PageError
from ors_server_tasks.code.stub import make_stub, public_classes, put_in_bug

DIFFICULTIES = ("easy", "medium", "hard")

_PROGRAM = (
    "Write the program to `{file}` in the work dir; it is run with `python3 {file}`. "
    "Use the standard library only."
)
_MEND_MODULE = (
    "Fix `{file}` in the work dir so that everything does what its docstring says; there may be more bugs "
    "than the description mentions. Keep the names and the parameters."
)
_MEND_PROGRAM = (
    "Fix `{file}` in the work dir; it is run with `python3 {file}`. There may be more bugs than the "
    "description mentions."
)
_AFTER = "Then call submit. Hidden tests grade the file as it is at that moment."


class Kind(StrEnum):
    """The agent's job."""

    FUNCTION = "function"
    """Write a function."""
    PROGRAM = "program"
    """Write a program that reads standard input and prints."""
    CLASS = "class"
    """Write a class."""
    FIX = "fix"
    """Fix a file that has bugs."""


class Grading(StrEnum):
    """How a solution is graded."""

    CALLS = "Hidden cases"
    """By the results of its functions."""
    INPUTS = "Hidden inputs"
    """By the program's output."""
    TESTS = "Hidden tests"
    """By tests."""


_MEND = {Grading.CALLS: _MEND_MODULE, Grading.TESTS: _MEND_MODULE, Grading.INPUTS: _MEND_PROGRAM}


@dataclass(frozen=True)
class Problem:
    """A problem, made of a page; `name` is the page's file name without its ending."""

    name: str
    page: Page

    @cached_property
    def kind(self) -> Kind:
        """The agent's job."""
        return Kind(self.page.facts["kind"])

    @cached_property
    def difficulty(self) -> str:
        """One of `DIFFICULTIES`."""
        return DIFFICULTIES[DIFFICULTIES.index(self.page.facts["difficulty"])]

    @cached_property
    def topics(self) -> list[str]:
        """Its topics, one word each."""
        return self.page.facts["topics"].split(", ")

    @cached_property
    def file(self) -> str:
        """Name of the file that is graded, in the work dir."""
        return self.page.facts.get("file", "solution.py")

    @cached_property
    def solution(self) -> str:
        """A file that solves the problem."""
        return self.page.code("Solution")

    @cached_property
    def starting_file(self) -> str | None:
        """The content of the file at the start; `None` if there is no file then."""
        if self.kind is Kind.FIX:
            return put_in_bug(self.solution, self.page.code("Bug"))
        return None if self.kind is Kind.PROGRAM else make_stub(self.solution)

    @cached_property
    def examples(self) -> list[tuple[str, str]]:
        """Inputs and outputs of a program, as the agent sees them; empty for other kinds."""
        fences = self.page.sections.get("Example", ())
        if [fence.language for fence in fences] != ["input", "output"] * (len(fences) // 2):
            raise PageError(f"{self.name}: an example is an input and an output")
        return [
            (input_fence.code, output_fence.code)
            for input_fence, output_fence in zip(fences[::2], fences[1::2], strict=True)
        ]

    @cached_property
    def grading(self) -> Grading:
        """How a solution is graded."""
        (heading,) = self.page.sections.keys() & set(Grading)
        return Grading(heading)

    @cached_property
    def hidden_calls(self) -> list[Call]:
        """Hidden calls with their expected results; empty if tests grade the solution."""
        if self.grading is Grading.TESTS:
            return []
        functions = public_functions(run_source(self.solution, self.name))
        if self.grading is Grading.INPUTS:
            functions = {PROGRAM: functions[PROGRAM]}
        return record_calls(self.page.code(self.grading), functions, self.name)

    @property
    def hidden_tests(self) -> str:
        """The tests that grade a solution."""
        return self.page.code(Grading.TESTS)

    @cached_property
    def classes(self) -> list[str]:
        """Names of the public classes of the solution."""
        return public_classes(self.solution)

    def describe(self) -> dict[str, Any]:
        """Return the task, which any client may list: without the solution and hidden cases."""
        return {
            "id": f"code/{self.name}",
            "kind": self.kind.value,
            "difficulty": self.difficulty,
            "topics": self.topics,
            "file": self.file,
            "prompt": self.prompt,
            "starting_file": self.starting_file,
        }

    @cached_property
    def prompt(self) -> str:
        """The agent's prompt."""
        parts = [f"# {self.page.title}", self.page.statement, *map(_show_example, self.examples), self._ask()]
        return "\n\n".join(part for part in parts if part)

    def _ask(self) -> str:
        if self.kind is Kind.FIX:
            return f"{_MEND[self.grading].format(file=self.file)} {_AFTER}"
        if self.kind is Kind.PROGRAM:
            return f"{_PROGRAM.format(file=self.file)} {_AFTER}"
        thing = "class" if self.kind is Kind.CLASS else "function"
        return (
            f"Complete this {thing} in `{self.file}` in the work dir, which has the following content:\n\n"
            f"```python\n{self.starting_file}```\n\nUse the standard library only. {_AFTER}"
        )


def _show_example(example: tuple[str, str]) -> str:
    input_text, printed = example
    return f"For example, for the input\n\n```\n{input_text}```\n\nit prints\n\n```\n{printed}```"
