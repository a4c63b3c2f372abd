"""The audit of every reward of the library in a small honest environment: what fails there is documented.

A class may fail only where the reward's documentation names the hazard; `audited_rewards.toml` has the words.
So a change of a reward that opens a hole fails here, and so does a hazard that is no longer documented. Of
rewards that read answers alike, an ordinary run audits one, and the two classes with the most plays are
judged in every third of those; `make stress` audits all in every class.
"""

import pytest

from ors_server.audit.auditing import AuditOptions, audit
from ors_server.audit.judgement import AuditVerdict
from ors_server.rewards.catalogue import describe_reward, reward_names
from tests.fixtures.audited.reward_environments import write_environment
from tests.fixtures.case_tables import tables

TABLES = tables("audited_rewards")
AUDITED = [name for name, table in TABLES.items() if "apart" not in table]
CLASSES = frozenset({"H1", "H2", "H3", "H4", "H10", "H13", "H14", "H16", "H18", "H23"})
"""The classes that are about what a reward reads."""
DEAR = ("H16", "H23")
"""The classes that take half of the plays."""
ALIKE = {
    "math_equal_reward_tool": "math_equal_reward",
    "math_string_equal_reward_tool": "math_equal_reward",
    "strict_answer_match_reward": "exact_match_reward",
    "normalised_match_reward": "exact_match_reward",
    "regex_match_reward": "exact_match_reward",
    "answer_match_reward": "exact_match_reward",
    "all_of_match_reward": "word_match_reward",
    "gsm8k_reward": "numeric_match_reward",
    "qa_f1_reward_tool": "qa_f1_reward",
    "ok_vqa_reward": "qa_f1_reward",
    "infoseek_reward": "qa_f1_reward",
    "qa_em_reward": "qa_f1_reward",
    "qa_em_format_reward": "qa_f1_reward",
    "qa_em_reward_tool_call": "qa_f1_reward",
    "rouge_n_reward": "rouge_l_reward",
    "rouge_lsum_reward": "rouge_l_reward",
    "bleu_reward": "rouge_l_reward",
    "chrf_reward": "rouge_l_reward",
    "edit_similarity_reward": "rouge_l_reward",
    "answer_format_reward": "think_format_reward",
    "code_format_reward": "think_format_reward",
    "tag_count_reward": "think_format_reward",
    "reasoning_steps_reward": "think_format_reward",
    "repetition_penalty_reward": "instruction_reward",
    "json_valid_reward": "json_match_reward",
    "json_schema_reward": "json_match_reward",
    "sql_match_reward": "json_match_reward",
    "gui_box_reward": "gui_point_reward",
    "code_stdio_reward": "code_functions_reward",
    "code_pytest_reward": "code_functions_reward",
    "code_execution_reward": "task_success",
    "efficiency_reward": "task_success",
    "file_match_reward": "diff_reward",
}
"""Rewards that an ordinary run does not audit, to the one of the same family that it audits."""
FAMILIES = [name for name in AUDITED if name not in ALIKE]
"""The rewards that an ordinary run audits."""
MIN_JUDGED = 4


def test_every_reward_is_audited_or_there_is_a_reason():
    assert set(TABLES) == set(reward_names())
    for name, table in TABLES.items():
        assert len(table.get("apart", "")) > 20 or "rows" in table, name


@pytest.mark.parametrize("name", AUDITED)
def test_what_may_fail_is_a_documented_hazard(name):
    hazards = describe_reward(name).hazards
    missing = {id_: words for id_, words in TABLES[name].get("hazards", {}).items() if words not in hazards}
    assert missing == {}


def test_of_rewards_that_are_alike_one_is_audited():
    assert set(ALIKE) <= set(AUDITED)
    assert set(ALIKE.values()) <= set(AUDITED) - set(ALIKE)


def ordinary_classes(place):
    """The classes of one family: all but the dear ones, of which each is judged in every third family."""
    return CLASSES - {name for number, name in enumerate(DEAR) if place % 3 != number}


FEW_TASKS, TASKS = 2, 3
"""Tasks of an ordinary run and of a stress run."""


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("name", "classes", "tasks"),
    [
        *(
            pytest.param(name, ordinary_classes(index), FEW_TASKS, id=name)
            for index, name in enumerate(FAMILIES)
        ),
        *(pytest.param(name, CLASSES, TASKS, id=f"{name}-all", marks=pytest.mark.stress) for name in AUDITED),
    ],
)
async def test_no_class_fails_without_a_documented_hazard(name, classes, tasks, tmp_path):
    write_environment(tmp_path, name, TABLES[name])
    report = await audit(str(tmp_path), AuditOptions(only=classes, tasks=TABLES[name].get("tasks", tasks)))
    assert [reward.name for reward in report.rewards] == [name]
    judged = [one.id for one in report.classes if one.verdict is not AuditVerdict.NOT_JUDGED]
    assert {"H1", "H18"} <= set(judged)
    assert len(judged) >= MIN_JUDGED
    documented = TABLES[name].get("hazards", {})
    unexplained = {one.id: one.findings[0].message for one in report.failed if one.id not in documented}
    assert unexplained == {}
