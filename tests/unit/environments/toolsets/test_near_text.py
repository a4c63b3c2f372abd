"""What an agent reads whose text does not stand in the file, and what a view shows of unusual files."""

import random
import time

import pytest

from ors_server.environments.tool import ToolError
from ors_server.environments.toolsets.file_edits import replace_text, show_file
from ors_server.environments.toolsets.file_views import show_entries
from ors_server.sandboxes.base import Entry, EntryKind

CODE = b"""import os


def total(prices, tax):
    result = 0
    for price in prices:
        result += price * (1 + tax)
    return round(result, 2)
"""


def refusal(content, old):
    with pytest.raises(ToolError) as caught:
        replace_text("shop.py", content, old, "x")
    return str(caught.value)


@pytest.mark.parametrize(
    ("old", "number"),
    [
        ("    for price in price:\n        result = price * (1 + tax)\n", 6),
        ("def total(prices, taxes):", 4),
        ("return round(result, 3)", 8),
        ("    result =  0\n    for price in  prices:", 5),
        ("for price in prices:\n    result += price * (1 + tax)", 6),
    ],
)
def test_the_nearest_lines_are_shown(old, number):
    said = refusal(CODE, old)
    assert "was not found in shop.py" in said
    line = CODE.decode().splitlines()[number - 1]
    assert f"{number:6}\t{line}" in said


@pytest.mark.parametrize("old", ["something else altogether", "£", "\n\n\n\n", "zz"])
def test_nothing_is_shown_where_nothing_is_near(old):
    assert (
        refusal(CODE, old) == "old_str was not found in shop.py; it must match exactly, including white space"
    )


@pytest.mark.parametrize("seed", range(40))
def test_a_slip_in_a_piece_of_the_file_leads_to_its_place(seed):
    rng = random.Random(seed)  # noqa: S311  (a test's)
    lines = [f"value_{rng.randrange(10**6)} = compute({rng.randrange(10**6)}, name_{i})" for i in range(300)]
    start = rng.randrange(290)
    piece = "\n".join(lines[start : start + rng.randint(1, 5)])
    slips = [
        piece.replace("compute", "compute ", 1),
        piece.replace("value", "vlaue", 1),
        piece.replace(" = ", "=", 1),
        "    " + piece.replace("\n", "\n    "),
        piece.replace(", ", ",  "),
    ]
    said = refusal("\n".join(lines).encode(), rng.choice(slips))
    assert f"{start + 1:6}\t{lines[start]}" in said


def test_mixed_line_ends_are_named_and_shown():
    content = b"one\r\ntwo\nthree\r\n"
    assert "From line 1 on it matches except for line ends" in refusal(content, "one\ntwo\n")
    shown = show_file(content, None) or ""
    assert "     1\tone\\x0d\n     2\ttwo" in shown
    assert "some lines end with CR LF" in shown


def test_a_text_with_control_characters_is_shown_with_their_codes():
    assert show_file(b"\x1b[31mred\x1b[0m\x07\x08\x01\x02 and more text\n", None) == (
        "     1\t\\x1b[31mred\\x1b[0m\\x07\\x08\\x01\\x02 and more text\n"
        "[control characters are shown as \\xNN]"
    )
    assert show_file(b"PK\x03\x04\x00\x00", None) is None
    assert show_file(bytes(range(1, 32)) * 4, None) is None


def test_the_search_for_near_lines_is_bounded():
    big = "\n".join(f"word{i % 50} other text here {i}" for i in range(20_000)).encode()
    begun = time.process_time()
    refusal(big, "word7 other texts here 77777777 and more\nword8")
    assert time.process_time() - begun < 5


def entry(path, kind=EntryKind.FILE):
    return Entry(path=path, kind=kind, size=1)


def test_a_listing_leaves_out_what_git_and_node_keep():
    entries = [
        entry(".git", EntryKind.FOLDER),
        entry(".git/HEAD"),
        entry("a.py"),
        entry("web/node_modules", EntryKind.FOLDER),
        entry("web/node_modules/x"),
    ]
    assert show_entries(entries) == (
        ".git/\na.py (1 bytes)\nweb/node_modules/\n"
        "[the content of .git and node_modules is left out; list these folders by their path]"
    )
    assert show_entries([entry(".git/HEAD")], ".git") == ".git/HEAD (1 bytes)"
    assert show_entries([entry("a.py")]) == "a.py (1 bytes)"
