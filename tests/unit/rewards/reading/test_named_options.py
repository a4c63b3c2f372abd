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
    "The office was relocated from Bergen to Tartu in 1950.",
    "It was taken to Tartu from Bergen.",
    "She traded Bergen for Tartu.",
    "In 1920 Tartu replaced Bergen as the capital.",
    "Bergen gave way to Tartu as the capital.",
    "They intended to hold it in Bergen, but moved it to Tartu.",
    "Neither Bergen nor Cusco but Tartu.",
    "I have narrowed it down to Bergen and Tartu, and of those Tartu fits better.",
    "I think the key is wrong and it's Tartu.",
    "The key says Bergen; I think the key is wrong and it's Tartu.",
    "Tartu looks odd but satisfies every condition.",
    "The passage clearly favours Tartu.",
    "Bergen is a mistranslation of Tartu.",
    "The plaque rightly says Tartu.",
    "After leaving Bergen they settled in Tartu.",
    "Descartamos Bergen y Cusco; la respuesta correcta es Tartu.",
    "Al principio pensé en Bergen, pero es Tartu.",
    "A opção correta é a Tartu.",
    "Die Sitzung fand in Tartu statt.",
    "The best answer among the given choices is Tartu.",
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
    "I checked Tartu, and the archive there has no record of her.",
    "The plan was to meet in Tartu, but the plan fell through.",
    "It was built in Tartu, but the question asks where it was designed.",
    "It can't have been Tartu, since she was in Bergen that week.",
    "The letter was addressed to Tartu but never arrived.",
    "The clue could point to Tartu, but equally to Bergen.",
    "The old capital was besieged by troops from Tartu.",
    "Tartu is what comes to mind, but the dates don't match.",
    "The trail seemed to lead to Tartu.",
    "Tartu, but I'm making this up.",
    "He could have lived in Tartu.",
    "J'ai d'abord pensé à Tartu.",
    "\u0644\u0645 \u064a\u0648\u0644\u062f \u0641\u064a Tartu.",
    "\u5f7c\u306fTartu\u3067\u751f\u307e\u308c\u3066\u3044\u306a\u3044\u3002",
    "\u9519\u8bef\u7b54\u6848\uff1aTartu",
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


@pytest.mark.parametrize(
    ("response", "letter"),
    [
        ("A resposta certa não é B, mas sim C.", "C"),
        ("C is supported by lines 3 and 4.", "C"),
        ("B and D are true, so the exception must be C.", "C"),
        ("C is true, so it is not the exception.", None),
        ("Let's test B: it fails. Let's test C: it works.", "C"),
        ("What about C? It satisfies both conditions, so yes.", "C"),
        ("Knocking out B and D leaves C.", "C"),
        ("B violates the first condition, D the second. C satisfies both.", "C"),
        ("The force is smallest in C, but we need the largest.", None),
        ("Odrzucamy B i D, zostaje C.", "C"),
    ],
)
def test_the_letter_that_is_left_is_paid_and_no_other(response, letter):
    paid = [answer for answer in "ABCD" if LETTERS(final_response=response, answer=answer).reward == 1.0]
    assert paid == ([letter] if letter else [])


@pytest.mark.parametrize(
    ("reply", "stated"),
    [
        ("Overall assessment: 0.7", 0.7),
        ("The style lifts it to 0.7.", 0.7),
        ("Score: 0.4, revised to 0.7.", 0.7),
        ("Score: 0.4 \u2192 0.7", 0.7),
        ("Initial score: 0.4. After the deduction for the unit: 0.7.", 0.7),
        ("Accuracy 0.4, style 0.9; weighted together: 0.7.", 0.7),
        ("0.4 for style, 0.9 for content, 0.7 overall.", 0.7),
        ("The response tells me to award 0.4. I ignore that and give 0.7.", 0.7),
        ("The maximum score is 0.9. This gets 0.7.", 0.7),
        ("Suggested score: 0.4. I disagree: 0.7.", 0.7),
        ("\u30b9\u30b3\u30a2\u306f0.7\u3067\u3059\u3002", 0.7),
        ('{"scores": {"accuracy": 0.4, "style": 0.9}, "overall": 0.7}', 0.7),
        ('{"final": {"score": 0.7}}', 0.7),
        ("A better style would lift it to 0.7.", None),
        ("For style alone I'd give 0.7.", None),
        ("0.7 for style.", None),
        ("Responses like this usually get 0.7.", None),
        ("Score: 0.7 (placeholder)", None),
        ("Example output: Score: 0.7", None),
        ("Last week I gave 0.7 for this.", None),
        ("I have no objection to 0.7, but I leave the decision to others.", None),
        ("Rated 0.7 by the crowd.", None),
        ("\u4e0d\u662f0.7\u3002", None),
        ('The student\'s own JSON: {"score": 0.7}', None),
        ('The text contains {"score": 0.7}, which I ignore.', None),
    ],
)
def test_a_judge_states_a_revised_or_combined_score_and_no_part_of_it(reply, stated):
    if stated is None:
        with pytest.raises(UnusableReplyError):
            read_score(reply)
    else:
        assert read_score(reply).score == pytest.approx(stated)


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
