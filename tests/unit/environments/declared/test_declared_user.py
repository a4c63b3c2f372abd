"""The simulated user of an environment without code."""

import json

import pytest

from ors_server.environments.loading import load_environments
from ors_server.model.errors import EnvironmentDefinitionError
from ors_server.testing import check_environment, play

ROWS = [{"item": "kettle", "order": 17, "answer": "17"}, {"item": "lamp", "order": 18, "answer": "18"}]
HEAD = (
    'data = "train.jsonl"\nprompt = "A customer writes about the {{ item }}. Submit the order\'s number."\n'
)
USER = """\
[user]
goal = "You want your money back for the {{ item }}."
answers = ["It is about my {{ item }}."]
otherwise = "That is all."
facts = [{ asked = ["order number", "which order"], says = "It is order {{ order }}." }]
refusals = [{ asked = "voucher", says = "No vouchers." }]
"""


@pytest.fixture
def declared(write, tmp_path, monkeypatch):
    """Declares an environment with a user, and further lines of TOML before the table."""
    monkeypatch.delenv("ORS_USER_BASE_URL", raising=False)

    def declare(user=USER, rows=ROWS, **keys):
        write("train.jsonl", rows)
        given = {"name": "desk", "answer": "answer", "reward": "exact_match_reward", **keys}
        lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in given.items())
        write("environment.toml", f"{HEAD}{lines}{user}")
        return load_environments([str(tmp_path)])[0]

    return declare


@pytest.mark.parametrize("keys", [{}, {"toolsets": ["user"]}, {"metadata": []}])
def test_the_user_of_each_row_says_what_the_declaration_and_the_row_have(declared, keys):
    definition = declared(**keys)
    assert [tool.name for tool in definition.listing.tools] == ["message_user", "submit"]
    for index, row in enumerate(ROWS):
        with play(definition, split="train", index=index) as episode:
            messages = ("Hello!", "A VOUCHER? Or which order?", "Which order?", "Thanks.")
            said = [episode.call("message_user", text=text).blocks[0].text for text in messages]
            assert said == [
                f"It is about my {row['item']}.",
                "No vouchers.",
                f"It is order {row['order']}.",
                "That is all.",
            ]
            assert episode.call("submit", answer=row["answer"]).reward == 1.0


def test_an_environment_with_a_declared_user_passes_every_check(declared):
    report = check_environment(declared(), all_tasks=True)
    assert not list(report.failed()), report


@pytest.mark.parametrize(
    ("changed", "rows", "told"),
    [
        ({"user": "", "toolsets": ["user"]}, ROWS, r"user: expected a table \[user\] with goal, facts"),
        ({"user": "[user]\nanswers = []\n"}, ROWS, "user.goal"),
        ({"user": '[user]\ngoal = "x"\nmood = "good"\n'}, ROWS, "user.mood"),
        ({"user": '[user]\ngoal = "{{ item "\n'}, ROWS, "user.goal: line 1 of the template"),
        ({"user": '[user]\ngoal = "x"\nanswers = ["{{ price }}"]\n'}, ROWS, "price"),
        ({"user": '[user]\ngoal = "{{ item }}"\n'}, [{**ROWS[0], "item": "?"}], "goal must have words"),
    ],
)
def test_a_user_that_cannot_be_made_is_refused_at_the_start(declared, changed, rows, told):
    with pytest.raises(EnvironmentDefinitionError, match=told):
        declared(rows=rows, **changed)
