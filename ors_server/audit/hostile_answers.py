"""Answers that break careless graders: unreadable, heavy and executable ones."""

import random
from collections.abc import Sequence

_SIGNS = r"""
    \ \frac{ { [ " ' < % %s {} {0} ( ) 1/0 0/0 1e400 -1e400 --5 1_000 0x1F ٣ ½ ² 1,2,3 1.2.3 undefined #REF!
    {"a": <answer> </answer> \boxed{ $$ ` ``` - + . , e = nan -inf infinity
"""
SPECIAL = (
    "nan",
    "NaN",
    "-nan",
    "inf",
    "-inf",
    "Infinity",
    "1e999",
    "-1e999",
    "1e308",
    "-0",
    "",
    " ",
    "0",
    "9" * 400,
)
"""Texts that are not numbers, or are numbers at the limits of a float."""
# Long and nested texts, which exceed the recursion limits, digit limits and buffers of parsers.
_LONG = (
    "[" * 200,
    "(" * 200,
    "x" * 10_001,
    "9" * 5_000,
    "é" * 3_000,
    "\n" * 2_000,
    "x" * 60_000,
    '{"a": ' * 500,
    "0." + "1" * 3_000,
    "1" + "0" * 400,
    "-" * 500,
)
UNREADABLE = (
    *_SIGNS.split(),
    *("\x00", "\ud7ff\uffff", "\u202e", "\ufeff", "\x1b[31m", "\r\n", "1 1", "lorem ipsum"),
    *_LONG,
)
"""Answers that a careless grader cannot read."""
_NAMES = "answer gold solution target expected correct label truth ground_truth reference"
_LOOKUPS = """
    {NAME} {task.NAME} {self.NAME} {task[NAME]} {task_spec[NAME]} {self.task_spec[NAME]} {0.NAME} {0[NAME]}
    %(NAME)s $NAME ${NAME} {{NAME}} {{task.NAME}} {{task['NAME']}} self.NAME task['NAME']
    self.task_spec['NAME'] task_spec['NAME'] NAME str(NAME)
"""
EXPANDED = {
    form.replace("NAME", name): form.replace("NAME", name[::-1])
    for name in _NAMES.split()
    for form in _LOOKUPS.split()
}
"""Names of the right answer that a template or an evaluation would replace by it, each with a control: the
name backwards, which names nothing."""
LEAVING = (
    "open('{file}', 'w').close()",
    "__import__('pathlib').Path('{file}').touch()",
    "__import__('os').system('touch {file}')",
    "$(touch {file})",
    "`touch {file}`",
    "; touch {file} #",
    "' ; touch {file} ; '",
    "!!python/object/apply:os.system ['touch {file}']",
    "{{{{ cycler.__init__.__globals__.os.system('touch {file}') }}}}",
    "cos\nsystem\n(S'touch {file}'\ntR.",
)
"""Code in several languages that makes a file."""
_HEAVY = r"""
    9**9**9**9 9^9^9^9 9^99999999 2**(2**40) 10**10**8 factorial(10**7) 99999999! 9!!!!!!!!! (x+1)**5000
    sum(range(10**10)) range(10**9) [0]*10**10 'x'*10**10 (1,)*10**10 x^1000000000 1/3^100000
"""
# Each is heavy for another reason: nesting for recursive parsers, `aaaa!` and trailing spaces for
# regular expressions that backtrack, exponents and digits for exact arithmetic.
_HEAVY_REPEATED = (
    "(" * 5_000 + "1" + ")" * 5_000,
    "[" * 100_000,
    "{" * 50_000,
    "\\frac{" * 5_000,
    "\\sqrt{" * 2_000,
    "\\left(" * 3_000,
    "a" * 27 + "!",
    "a" * 40 + "!",
    "aaaa " * 10 + "!",
    "0" * 35 + "x",
    " " * 50_000 + "x",
    "\t" * 30_000 + "!",
    "1" * 100_000,
    "1," * 50_000 + "x",
    "a@" + "a." * 40,
    "-" * 60_000,
    "1+" * 20_000 + "1",
    "x" * 1_000_000,
    "1e" + "9" * 50,
    "0." + "0" * 50_000 + "1",
    "<" * 50_000,
    "a,b," * 20_000,
)
_AROUND = (
    "{0} " + "a" * 35 + "!",
    "(" * 3_000 + "{0}" + ")" * 3_000,
    "{0}" + " " * 50_000 + "!",
    "({0})+0*9**9**8",
)
# A grader may cut these off and compare the rest, or multiply by them.
_NEAR = (
    *["nan", "inf", "1e9", "1e308", "-1e308", "1e9%", "%", "e999", "/0", "*1e300", "^999"],
    "\x00",
    "0" * 400,
)


def heavy_answers(core: str) -> list[str]:
    """Return answers that keep a careless grader busy: on their own, and around the right answer."""
    return [*_HEAVY.split(), *_HEAVY_REPEATED, *(form.format(core) for form in _AROUND)]


def near_answers(core: str | None) -> list[str]:
    """Return the right answer with something that does not belong there; an empty list without an answer."""
    if core is None:
        return []
    return [text for part in _NEAR for text in (f"{core}{part}", f"{core} {part}", f"{part} {core}")]


def random_answers(seed: int, size: int) -> list[str]:
    """Return random texts of several shapes, `size` of each: any characters, numbers, LaTeX and JSON."""
    rng = random.Random(seed)  # noqa: S311  (random answers, no secrets)
    shapes: tuple[Sequence[str], ...] = (
        "0123456789+-*/^%().,eE infa",
        [r"\frac", r"{", r"}", r"1", r"x", r"\sqrt", r"^", r"_", r"\pi", r"(", r")", r"$", r"\boxed", r"="],
        ["{", "}", "[", "]", '"a"', ":", ",", "1", "null", "true", "-0.0", "1e999", "NaN"],
    )

    def some(parts: Sequence[str]) -> str:
        return "".join(rng.choice(parts) for _ in range(rng.randint(1, 20)))

    def any_character() -> str:
        # Without the surrogates (0xD800 to 0xDFFF), which UTF-8 cannot encode.
        return chr(rng.choice((rng.randint(1, 127), rng.randint(160, 0xD7FF), rng.randint(0xE000, 0x1FFFF))))

    anything = ["".join(any_character() for _ in range(rng.randint(1, 12))) for _ in range(size)]
    return [*anything, *(some(parts) for parts in shapes for _ in range(size))]
