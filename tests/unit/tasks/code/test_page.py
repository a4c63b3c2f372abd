"""Pages of problems: how they are read, and what is refused."""

import pytest

from ors_server_tasks.code.page import PageError, read_page

PAGE = """\
# Doubling

kind: function
difficulty: easy

Some words.

```python
#  not a heading
```

## Solution

```python
def double(x):
    return 2 * x
```

## Example

```input
1
```

```output
2
```
"""


def test_a_page_has_a_title_facts_a_statement_and_sections():
    page = read_page(PAGE)
    assert page.title == "Doubling"
    assert page.facts == {"kind": "function", "difficulty": "easy"}
    assert page.statement.startswith("Some words.")
    assert list(page.sections) == ["Solution", "Example"]
    assert page.code("Solution") == "def double(x):\n    return 2 * x\n"


def test_blocks_of_a_section_keep_their_language_and_order():
    fences = read_page(PAGE).sections["Example"]
    assert [(fence.language, fence.code) for fence in fences] == [("input", "1\n"), ("output", "2\n")]


@pytest.mark.parametrize("section", ["Example", "Bug"])
def test_a_section_with_another_number_of_blocks_than_one_has_no_code(section):
    with pytest.raises(PageError, match=section):
        read_page(PAGE).code(section)


@pytest.mark.parametrize("text", ["", "Doubling\n", "# Doubling\n\nno facts\n\n", "# Doubling\nkind: x\n\n"])
def test_a_page_without_title_and_facts_is_refused(text):
    with pytest.raises(PageError, match="expected"):
        read_page(text)


def test_a_heading_that_comes_twice_is_refused():
    with pytest.raises(PageError, match="twice"):
        read_page(PAGE + "\n## Solution\n\n```python\n```\n")
