"""Templates over hostile rows: a row's number or text cannot multiply what a template makes."""

import pytest

from ors_server.environments.declared.row_faults import RowFaultError
from ors_server.environments.declared.templates import parse_source

HUGE = 2_000_000_000


@pytest.mark.parametrize(
    ("template", "row"),
    [
        ("{{ 'x' * n }}", {"n": HUGE}),
        ("text {{ 'x' * n }}", {"n": HUGE}),
        ("{{ n * 'x' }}", {"n": HUGE}),
        ("{{ ([0] * n) | length }}", {"n": HUGE}),
        ("{{ 9 ** n }}", {"n": 10_000_000}),
        ("{{ n * n }}", {"n": 1 << 3_000}),
        ("{{ '%*d' % (n, 1) }}", {"n": HUGE}),
        ("{{ '%*d' | format(n, 1) }}", {"n": HUGE}),
        ("{{ form % 1 }}", {"form": f"%{HUGE}d"}),
        ("{{ form.format(1) }}", {"form": f"{{:{HUGE}}}"}),
        ("{{ '{:>{}}'.format(1, n) }}", {"n": HUGE}),
        ("{{ 'x'.ljust(n) }}", {"n": HUGE}),
        ("{{ 'x'.zfill(n) }}", {"n": HUGE}),
        ("{{ 'x' | center(n) }}", {"n": HUGE}),
        ("{{ 'x' | indent(n, first=true) }}", {"n": HUGE}),
        ("{{ {'a': 1} | tojson(n) }}", {"n": HUGE}),
        ("{{ ['x'] | batch(n, 'y') | list }}", {"n": HUGE}),
        ("{{ text.replace('', text) }}", {"text": "x" * 100_000}),
        ("{{ text | replace('x', text) }}", {"text": "x" * 100_000}),
        ("{{ items | join(text) }}", {"items": ["", "x"] * 50_000, "text": "x" * 100_000}),
        ("{{ text.join(items) }}", {"items": ["", "x"] * 50_000, "text": "x" * 100_000}),
        ("{% for i in range(n) %}{% for j in range(n) %}{% endfor %}{% endfor %}", {"n": 2_000}),
        ("{% for i in range(n) %}{{ text }}{% endfor %}", {"n": 90_000, "text": "x" * 10_000}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_row_cannot_multiply_what_a_template_makes(template, row):
    with pytest.raises(RowFaultError, match=r"the template|Range too big"):
        parse_source(template, "prompt").value(row)


@pytest.mark.parametrize(
    ("template", "row", "text"),
    [
        ("{{ '-' * n }}", {"n": 40}, "-" * 40),
        ("{{ 'x' * 3 ~ n * 2 }}", {"n": 4}, "xxx8"),
        ("{{ 2 ** n }}", {"n": 64}, 2**64),
        ("{{ n % 7 }}", {"n": 30}, 2),
        ("{{ '%05.1f' % n }}", {"n": 2.25}, "002.2"),
        ("{{ '%s and %s' | format(n, 1) }}", {"n": 2}, "2 and 1"),
        ("{{ '{:>{}}'.format(1, n) }}", {"n": 3}, "  1"),
        ("{{ items | join(', ') }}", {"items": ["a", "b"]}, "a, b"),
        ("{{ items | join(', ', attribute='a') }}", {"items": [{"a": 1}, {"a": 2}]}, "1, 2"),
        ("{{ text | replace('a', 'bc') }}", {"text": "aa"}, "bcbc"),
        ("{{ text | center(5) }}|", {"text": "a"}, "  a  |"),
        ("{{ {'a': n} | tojson }}", {"n": 1}, '{"a": 1}'),
        ("{% for i in range(n) %}{{ i }}{% endfor %}", {"n": 5}, "01234"),
        ("{{ range }}", {"range": "a field"}, "a field"),
    ],
)
def test_ordinary_templates_are_not_touched(template, row, text):
    assert parse_source(template, "prompt").value(row) == text
