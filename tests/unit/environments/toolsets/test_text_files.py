"""Text comes apart and together again without a byte changed; names and views hide nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ors_server.environments.tool import ToolError
from ors_server.environments.toolsets.file_names import read_name, show_name
from ors_server.environments.toolsets.file_views import (
    MAX_CHARACTERS,
    MAX_LINE,
    MAX_ROWS,
    check_range,
    count_lines,
    show_entries,
    show_lines,
    show_matches,
)
from ors_server.environments.toolsets.text_files import TextFile, image_type
from ors_server.sandboxes.base import Entry, EntryKind


@pytest.mark.parametrize(
    ("content", "text", "encoding"),
    [
        (b"", "", "utf-8"),
        ("é\n".encode(), "é\n", "utf-8"),
        ("\ufeffé".encode(), "é", "utf-8"),
        ("\ufeffé".encode("utf-16-le"), "é", "utf-16-le"),
        ("\ufeffé".encode("utf-16-be"), "é", "utf-16-be"),
        ("\ufeffé".encode("utf-32-le"), "é", "utf-32-le"),
        ("\ufeffé".encode("utf-32-be"), "é", "utf-32-be"),
        ("café\n".encode("latin-1"), "café\n", "latin-1"),
        (b"\x1b[1mbold\x1b[0m\n", "\x1b[1mbold\x1b[0m\n", "utf-8"),
    ],
)
def test_text_is_read_in_its_own_encoding(content, text, encoding):
    file = TextFile.read(content)
    assert (file.text, file.encoding) == (text, encoding)
    assert file.with_text("a.txt", file.text) == content


@pytest.mark.parametrize(
    "content",
    [b"a\0b", b"\x7fELF\x02\x01\x01", bytes(range(256)), b"\xff\xfea", b"\xff\xfe\x00\xd8", b"\x01\x02\x03"],
)
def test_what_is_no_text_is_not_taken_for_it(content):
    assert TextFile.read(content) is None


@given(st.binary() | st.text().map(str.encode) | st.text().map(lambda text: f"\ufeff{text}".encode("utf-16")))
def test_no_byte_is_changed_by_reading_and_writing(content):
    file = TextFile.read(content) if not content.startswith(b"\xff\xfe\xff\xfe") else None
    assert file is None or file.with_text("a.txt", file.text) == content


@given(st.binary(max_size=30))
def test_a_names_bytes_survive_being_shown_and_read(name):
    path = name.decode(errors="surrogateescape")
    shown = show_name(path)
    shown.encode()
    if "\\x" not in path:
        assert read_name(shown) == path


def test_names_that_no_json_can_carry_are_shown_escaped():
    assert show_name("caf\udce9\n\u2028") == "caf\\xe9\\x0a\\xe2\\x80\\xa8"
    assert read_name("caf\\xe9\\x0a") == "caf\udce9\n"
    assert read_name("plain\\xZZ") == "plain\\xZZ"


@pytest.mark.parametrize(
    ("text", "lines", "lacks"),
    [
        ("", [], False),
        ("a", ["a"], True),
        ("a\n", ["a"], False),
        ("\n", [""], False),
        ("a\n\nb", ["a", "", "b"], True),
    ],
)
def test_lines_are_counted_as_editors_count_them(text, lines, lacks):
    file = TextFile(text)
    assert (file.lines, file.lacks_newline) == (lines, lacks)


def test_line_ends_are_adapted_only_where_all_are_alike():
    assert TextFile("a\r\nb\r\n").adapt("x\ny\r\nz") == "x\r\ny\r\nz"
    assert TextFile("a\r\nb\n").adapt("x\ny") == "x\ny"
    assert TextFile("a\nb\n").adapt("x\r\ny") == "x\r\ny"
    assert TextFile("a\r\nb\r\n").lines == ["a", "b"]
    assert TextFile("a\r\nb\n").lines == ["a\r", "b"]


def test_a_view_numbers_lines_and_says_what_is_unusual():
    assert show_lines(TextFile("a\nb\n"), 1, 2) == "     1\ta\n     2\tb"
    assert show_lines(TextFile("a\nb"), 2, 2) == "     2\tb\n[no newline at the end of the file]"
    assert show_lines(TextFile("a\nb"), 1, 1) == "     1\ta"
    assert show_lines(TextFile(""), 1, 0) == "[the file is empty]"
    marked = TextFile("a\r\n", "utf-8", b"\xef\xbb\xbf")
    assert show_lines(marked, 1, 1).endswith(
        "[lines end with CR LF; encoded as utf-8 with a byte order mark]"
    )


def test_a_view_is_bounded_and_says_how_to_go_on():
    shown = show_lines(TextFile(("x" * 70 + "\n") * 2000), 1, 2000)
    assert len(shown) < MAX_CHARACTERS + 200
    assert "[2000 lines in all; use view_range to see lines from 821 on]" in shown
    assert f"[... {5} characters more]" in show_lines(TextFile("y" * (MAX_LINE + 5)), 1, 1)


@pytest.mark.parametrize(
    ("wanted", "total", "given"),
    [
        (None, 5, (1, 5)),
        (None, 0, (1, 0)),
        ([2, 3], 5, (2, 3)),
        ([2, -1], 5, (2, 5)),
        ([2, 99], 5, (2, 5)),
        ([1, -1], 0, (1, 0)),
        ([5, 5], 5, (5, 5)),
    ],
)
def test_a_range_is_within_the_file(wanted, total, given):
    assert check_range(wanted, total) == given


@pytest.mark.parametrize(
    "wanted", [[0, 1], [3, 2], [6, 7], [6, -1], [1], [], [1, 2, 3], [-1, -1], [1, 0], [2, -2]]
)
def test_what_is_no_range_is_refused_with_the_number_of_lines(wanted):
    with pytest.raises(ToolError, match=r"view_range must be"):
        check_range(wanted, 5)


def test_listings_show_kinds_and_sizes_and_are_bounded():
    entries = [
        Entry("d", EntryKind.FOLDER, 0),
        Entry("f\udce9", EntryKind.FILE, 3),
        Entry("l", EntryKind.LINK, 0),
        Entry("p", EntryKind.OTHER, 0),
    ]
    assert show_entries(entries) == "d/\nf\\xe9 (3 bytes)\nl@\np?"
    assert show_entries([]) == "[the folder is empty]"
    many = show_entries([Entry(f"{n}", EntryKind.FILE, 0) for n in range(MAX_ROWS + 3)])
    assert many.endswith("\n[3 more; list a subfolder, or with a smaller depth]")


def test_matches_and_counts_are_shown_in_words():
    assert show_matches([("a\udce9", 3, "x")], is_cut=False) == "a\\xe9:3: x"
    assert show_matches([], is_cut=False) == "[no match]"
    assert "more than 1 matches" in show_matches([("a", 1, "x")], is_cut=True)
    assert (count_lines("a"), count_lines("a\nb\n"), count_lines("")) == ("1 line", "2 lines", "0 lines")


@pytest.mark.parametrize(
    ("content", "mime_type"),
    [
        (b"\x89PNG\r\n\x1a\nrest", "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\n\0\0\0WEBPVP8 ", "image/webp"),
        (b"RIFF\0\0\0\0WAVE", None),
        (b"text", None),
    ],
)
def test_images_are_told_by_their_first_bytes(content, mime_type):
    assert image_type(content) == mime_type
