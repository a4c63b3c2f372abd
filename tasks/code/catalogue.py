"""The problems of each split, in order."""

from functools import cache
from importlib.resources import files

from ors_server_tasks.code.page import read_page
from ors_server_tasks.code.problem import Problem

SPLITS: dict[str, tuple[str, ...]] = {
    "train": (
        "bar_chart",
        "pack_fields",
        "class_lift",
        "fix_brackets",
        "ordinal",
        "covered_length",
        "fix_pages",
        "headline",
        "shelf_requests",
        "fix_queue_order",
        "grow_colony",
        "repeating_decimal",
        "fix_survey_program",
        "encode_runs",
        "pivot_table",
        "class_ring_log",
        "fix_tokens",
        "falling_blocks",
        "run_machine",
        "word_counts",
        "leaky_bucket",
        "fix_bookings",
        "fix_templates",
        "class_stream",
        "to_base",
        "subtract_intervals",
        "turtle_picture",
        "add_minutes",
        "fix_day_count",
        "read_outline",
        "unique_prefixes",
        "class_diary",
        "lake_sizes",
        "fix_batches",
        "fill_shelf",
        "work_order",
        "justify_text",
        "fix_versions",
        "expand_braces",
        "class_phone_book",
        "fix_ledger",
        "stack_language",
        "split_command",
        "rotate_ring",
        "fix_seating",
        "apply_changes",
    ),
    "validation": (
        "class_larder",
        "friend_circles",
        "cheapest_route",
        "repair_word",
        "fix_page_cache",
        "fix_rate_limit",
        "leaper_moves",
        "split_bill",
        "count_presses",
        "league_table",
    ),
    "test": (
        "fix_tag_index",
        "parse_pages",
        "unit_fractions",
        "class_polynomial",
        "fix_bit_flags",
        "month_grid",
        "flatten_record",
        "count_climbs",
        "maze_steps",
        "align_decimals",
        "fix_stock",
        "round_robin",
        "fix_retry_plan",
        "lamp_patterns",
        "bank_commands",
        "shared_ends",
        "class_scoreboard",
        "fix_paths",
        "free_slots",
        "busiest_stretch",
        "strip_remarks",
        "fix_median",
        "fewest_changes",
        "key_presses",
        "fix_csv_line",
        "digit_chain",
        "class_editor",
        "list_columns",
        "fix_flood",
        "give_change",
        "fix_undo",
        "class_sparse_matrix",
        "evaluate",
        "hours_worked",
        "column_report",
        "fix_wrap",
        "unflatten_settings",
        "read_query",
        "fix_shelf_insert",
        "parse_duration",
    ),
}
"""Names of the problems of each split. The order is fixed: a new problem goes to the end of a split."""


@cache
def load_problem(name: str) -> Problem:
    """Return a problem of `SPLITS`; each is read once.

    Raises:
        KeyError: There is no such problem.
        PageError: Its page has a wrong layout.
    """
    if not any(name in names for names in SPLITS.values()):
        raise KeyError(name)
    page = files("ors_server_tasks.code").joinpath("problems", f"{name}.md").read_text(encoding="utf-8")
    return Problem(name, read_page(page))
