"""Which of several names a response asserts, by the structure of its sentences rather than by their words."""

from functools import partial

import pytest

from ors_server.rewards.agentfly.answers import qa_f1_reward
from ors_server.rewards.agentfly.exact import qa_em_reward
from ors_server.rewards.judges.replies import read_score
from ors_server.rewards.reward_errors import UnusableReplyError
from ors_server.rewards.scoring import score
from ors_server.rewards.text.matches import word_match_reward
from ors_server.rewards.text.multiple_choice import multiple_choice_reward

TOWNS = ["Tartu", "Bergen", "Cusco", "Gaza", "Nantes"]
MATCH = partial(score, word_match_reward, max_ratio=1000.0, choices=TOWNS)
ALONE = partial(score, word_match_reward, max_ratio=1000.0)
LETTERS = partial(score, multiple_choice_reward, choices=["amber", "slate", "coral", "flint"])

ASSERTS_TARTU = [
    "The first congress was in Bergen, the second in Tartu. We need the second.",
    "If the map is to scale, and the caption says it is, the town must be Tartu.",
    "Bergen. On second reading: Tartu.",
    "Bergen lost the vote to Tartu.",
    "One chronicle says Bergen, the other Tartu; historians agree on the latter.",
    "If the letter is genuine, which nobody doubts, it was written in Tartu.",
    "Two of the options lie on the coast, Bergen and Tartu. Only Tartu has a university.",
    "Richtig ist Tartu, denn Bergen und Cusco widersprechen dem Text.",
    "It was written in Tartu, where he taught.",
    "I hesitated between Bergen and Tartu and chose the latter.",
    "Most people answer Bergen. The right answer is Tartu.",
    "Take away Bergen and Cusco, and Tartu is left.",
    "First I thought Bergen, then Cusco, and finally Tartu.",
    "Bergen is inland. Cusco is inland too. Tartu is on the coast, as required.",
    "While Bergen has the older bridge, the longest one is in Tartu.",
    "Bergen lost out to Tartu.",
    "Bergen → Tartu",
    "Bergen has many people and Tartu fewer, and the question asks for the smaller. Tartu.",
    "Bergen is the capital; the port you are looking for is Tartu.",
    "Bergen sounds right but the date only works for Tartu.",
    "Bergen. After some more thought: Tartu.",
    "Bergen. Tartu, I mean.",
    "Tartu > Bergen > Cusco",
    "Tartu, which later overtook Bergen as the capital.",
    "Tartu, and here is why. Bergen had no mint, and Cusco was in enemy hands.",
    "Of the three, Tartu is the only port.",
    "The festival moved from Bergen to Tartu.",
    "Where else but Tartu?",
    "Bergen fails because it lies inland. Tartu doesn't.",
    "Having crossed out Bergen and Cusco, I'm left with Tartu.",
    'The text says: "He was born in Tartu."',
    "Contrary to first appearances the answer is Tartu and not Bergen.",
    '{"answer": "Tartu", "eliminated": ["Bergen", "Cusco"]}',
    "To jest Tartu.",
    "ليس Bergen بل Tartu.",
    "是Tartu而不是Bergen。",
    "Statt Bergen ist Tartu richtig.",
]
ASSERTS_NEITHER = [
    "The passage mentions Tartu, but says nothing about the congress.",
    "If the map is right, it might be Tartu.",
    "The harbour rules out Bergen, the castle Tartu.",
    "His brother lived in Tartu.",
    "Not to be confused with Tartu.",
    "Tartu, but Bergen would also fit.",
    "Tartu... or was it Bergen?",
    "Tartu in theory, Bergen in practice.",
    "By area Tartu, by population Bergen.",
    "The sources disagree: Bergen or Tartu.",
    "We can safely drop Tartu.",
    "Tartu is the hometown of his rival.",
    "In a different timeline it's Tartu.",
    "He was born in Bergen and buried in Tartu.",
    "It happened a long way from Tartu.",
    "Tartu. Hmm, that is where he died.",
    "Tartu. Looking again, that's the sister's birthplace.",
    "I marked Tartu, but I see now that the question asks for the exception.",
    "It is Tartu if we trust the diary, and Bergen if we trust the letter.",
    "I'm 60% for Tartu and 40% for Bergen, so I can't decide.",
    "A: Bergen, B: Cusco, C: Tartu. All three seem right to me.",
    "1. Tartu\n2. Bergen",
    "We considered Tartu and Bergen.",
    "The place is further north than Tartu.",
    "Tartu is only the birthplace of his brother.",
    "Tartu is far too obvious.",
    "He was educated in Tartu, but born elsewhere.",
    "the Tartu area",
    "East Tartu",
    "The rumour is that it was Tartu.",
    "Pas Tartu.",
    "Ich bezweifle, dass es Tartu ist.",
    "Tom sagt, es sei Tartu.",
    "Tartu, aber das ist falsch.",
    "Сомневаюсь, что это Tartu.",
    "汤姆说是Tartu。",
    "Tartu일 리가 없다.",
    "هل هو Tartu؟",
]


@pytest.mark.parametrize("response", ASSERTS_TARTU)
def test_the_name_that_the_structure_asserts_is_paid_and_no_other(response):
    assert MATCH(final_response=response, answer="Tartu").reward == 1.0
    assert MATCH(final_response=response, answer="Bergen").reward == 0.0


@pytest.mark.parametrize("response", ASSERTS_NEITHER)
def test_no_name_is_paid_where_the_structure_asserts_none(response):
    assert [MATCH(final_response=response, answer=town).reward for town in ("Tartu", "Bergen")] == [0.0, 0.0]


def test_a_second_name_is_an_apposition_only_if_it_says_where_the_first_is():
    assert ALONE(final_response="Answer: Turin, Italy", answer="Turin").reward == 1.0
    assert ALONE(final_response="Answer: Turin, Nantes", answer="Turin").reward == 0.0


def test_a_contraction_is_no_name():
    assert ALONE(final_response="Tartu. Don't ask me why.", answer="Tartu").reward == 1.0


@pytest.mark.parametrize(
    ("response", "letter"),
    [
        ("The answer is C, A having been excluded.", "C"),
        ("Die Antwort kann nur A sein.", "A"),
        ("정답은 D번입니다.", "D"),
        ("I said \\boxed{C} too quickly. It is \\boxed{D}.", "D"),
    ],
)
def test_a_letter_is_told_from_an_article_and_a_number(response, letter):
    assert LETTERS(final_response=response, answer=letter).reward == 1.0


def test_what_somebody_else_answers_does_not_replace_the_answer_behind_a_cue():
    response = "The answer is C, though Eva writes that the answer is A."
    assert LETTERS(final_response=response, answer="C", mode="answer").reward == 1.0
    assert LETTERS(final_response=response, answer="A", mode="answer").reward == 0.0


@pytest.mark.parametrize("response", ["«Turin»", '" Turin "', "“Turin”"])
def test_quotation_marks_around_an_answer_are_no_part_of_it(response):
    messages = [{"role": "assistant", "content": response}]
    exact = score(qa_em_reward, messages, final_response=response, golden_answers="Turin")
    shared = score(qa_f1_reward, final_response=response, answer="Turin", denials=True)
    assert (exact.reward, shared.reward) == (1.0, 1.0)


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        ("<answer>Riga</answer> (Cork was ruled out by the first document)", "Riga"),
        ("<answer>Riga</answer> and not Oslo.", "Riga"),
        ("Not Oslo: <answer>Riga</answer>", "Riga"),
        ("<answer>Riga</answer>\n\nThe other candidates, Oslo and Cork, don't fit.", "Riga"),
        ("<answer>Basel</answer> Correction: <answer>Davos</answer>", "Davos"),
        ("<answer>Riga</answer>. Riga is wrong.", None),
        ("<answer>Riga</answer>. That is wrong.", None),
        ("The instructions show <answer>Riga</answer> as an example.", None),
    ],
)
def test_a_remark_on_another_name_says_nothing_of_the_tagged_answer(response, answer):
    messages = [{"role": "assistant", "content": response}]
    for gold in ("Riga", "Basel", "Davos"):
        result = score(qa_em_reward, messages, final_response=response, golden_answers=gold)
        assert result.reward == float(gold == answer)


def test_a_question_that_ends_with_a_bracket_is_read():
    assert MATCH(final_response="Tartu (Bergen?)", answer="Tartu").reward == 0.0


@pytest.mark.parametrize(
    "reply",
    [
        "The model starts from a prior of 0.3 and updates it. I rate this 0.6.",
        "Reason: the answer is not complete.\nScore: 0.6",
        "It does not matter who wrote it: the score is 0.6.",
        "0.8 is too high; 0.6.",
        "0.6 is the right score.",
        "0.6 seems right to me; 0.8 would reward luck.",
        "Starting from 1, I take off 0.4 and end up at 0.6.",
        "Score: 0.6. I considered 0.8, but the example is missing.",
        "The answer is wrong in one place, hence 0.6.",
        "Draft: 0.5\nFinal: 0.6",
        "In total: 0.6",
        "A lenient judge would say 0.9. I say 0.6.",
        "Had it cited a source, I would have given 0.9. As it stands, 0.6.",
        "I first thought 0.4, but the last step convinced me: 0.6.",
        "Let me lower my 0.8 to 0.6.",
        "The response tries to talk me into 0.9. Its content earns 0.6.",
        "The author rates himself 0.9. I rate him 0.6.",
        "Before penalties: 0.8. After penalties: 0.6.",
        "At first sight it looks like 0.8, but the proof has a hole: 0.6.",
        "Revised score: 0.6 (was 0.8)",
        "Note finale : 0.6",
        "Gesamtnote: 0.6",
        "It's a 0.6 from me.",
    ],
)
def test_a_judge_may_give_its_score_in_a_sentence(reply):
    assert read_score(reply).score == 0.6


@pytest.mark.parametrize(
    "reply",
    [
        "Score: 0.6\n\nActually, I take this score back: I was reading the wrong response.",
        "Score: 0.6. That is not my score.",
        "Score: 0.6. Or 0.5?",
        "Score: 0.6. I must withdraw this score.",
        "Score: 0.6. That score belonged to the previous answer.",
        "Score: 0.6. This needs to be lowered.",
        "Score: 0.6. I was grading the wrong file.",
        "Score: 0.6, which is more than it deserves.",
        "Score: 0.6, but I graded it before I saw the reference.",
        "The answer contains the following: Score: 0.6",
        "Score: ~0.6 or a bit higher",
        "Score: 0.8. Score: 0.6. I leave the choice to you.",
        "The score of 0.6 is undeserved.",
        "Score: 0.6. Treat it as blank.",
        "The score was 0.6 before the appeal.",
        "Sub-score: 0.6",
        "Score: 0.6. I need to look at the appendix before I can decide.",
        "Step one is worth 0.6. I have not looked at step two.",
    ],
)
def test_a_score_that_the_judge_disowns_is_none(reply):
    with pytest.raises(UnusableReplyError):
        read_score(reply)
