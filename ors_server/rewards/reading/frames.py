"""Tells the sentences that may state a value from words around one. Pure.

A value is stated behind a verb of results or a noun for the answer ("that leaves 42"), by itself ("So 42.")
or with a unit ("42 red balloons"). Words that no list knows do not speak for it: an unknown preposition
("the answer ends in 42"), an unknown noun ("Psalm 42"), a clause behind it.

`clauses`, `headings`, `front_words` and `sentence_rules` ask these predicates, and decide what follows. Here
are those over both sides of a value, over whole clauses and over sentences; `left_frames` and `right_frames`
have those over one side. A list of words is in front of its only user.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from ors_server.rewards.reading.frame_words import (
    GUESSES,
    OBJECTS,
    SOUGHT,
    is_filler,
    is_source,
    is_third_person,
)
from ors_server.rewards.reading.left_frames import begins_with_name, is_found_noun
from ors_server.rewards.reading.polarity import NO_CLASSES, Classes, words_of
from ors_server.rewards.reading.sentences import Clause, TextToken, classes_in

_RESULTS: Final = frozenset({"result", "quantity", "copula"})
_GOVERNORS: Final[dict[str, Classes]] = {
    "to": _RESULTS,
    "at": _RESULTS,
    "as": _RESULTS,
    "into": frozenset({"result"}),
    "of": frozenset({"answer", "quantity", "result", "confirm"}),
    "for": frozenset({"result", "answer", "quantity"}),
    "on": frozenset({"result"}),
    "upon": frozenset({"result"}),
    "up": _RESULTS,
    "down": _RESULTS,
    "about": _RESULTS | {"answer"},
    "with": frozenset({"result"}),
    "by": frozenset({"quantity"}),
    "in": NO_CLASSES,
}
"""Classes of the word in front of a preposition behind which a value may be stated."""
_TASKS: Final = words_of("problem question task exercise statement prompt puzzle setup")
_THINGS: Final = frozenset({"theorem", "work"})
"""Classes of arguments, of which an unknown verb says what they do to a value."""


def governor_states(left: Sequence[TextToken], right: Sequence[TextToken]) -> bool:
    """Whether the word that governs a value may state it."""
    words = list(left)
    while words and (is_filler(words[-1]) and words[-1].word not in _GOVERNORS):
        words = words[:-1]
    if not words or [token.word for token in left[len(words) :]] == ["="]:
        return True  # "the number of edges = 42"
    governor = words[-1]
    if "preposition" in governor.classes or governor.word in _GOVERNORS:
        return _preposition_states(words, right)
    if governor.classes or right:
        return True
    is_past = governor.word.endswith("ed") and not any(token.classes & _THINGS for token in words)
    if len(words) > 1 and "copula" in words[-2].classes:
        return True  # "the answer is always 42"
    return is_past or (len(words) != 1 and not is_third_person(governor))


_STATING_WITH: Final = words_of(
    "left go goes went going end ends ended ending come comes came up finish finishes finished wind "
    "wound stay stick stuck "
    "leaves leaving conclude answer remain be am 're satisfied"
)
_ENDINGS: Final = words_of("ends end ended ending results result resulted resulting culminates culminated")
_COURSES: Final = words_of(
    "computation calculation process procedure work working sum derivation this it that chain argument all"
)
"""What ends in its result; an answer or a number that ends in 42 only has these digits."""
_CHANGING: Final = (
    "chang",
    "correct",
    "revis",
    "turn",
    "rais",
    "lower",
    "bring",
    "brought",
    "reduc",
    "increas",
    "push",
)
_EQUALITY: Final = words_of("equal identical equivalent congruent equals answer: same")


def _preposition_states(words: Sequence[TextToken], right: Sequence[TextToken]) -> bool:
    preposition = words[-1]
    if preposition.classes & {"bound", "negative", "trial", "operation", "copula", "answer", "result"}:
        return True  # judged by other rules, or a part of a known phrase
    before = [token for token in words[:-1] if token.word not in OBJECTS or token.classes & {"answer"}]
    while before and not before[-1].classes and before[-1].word.endswith("ly"):
        before = before[:-1]
    if not before:
        return preposition.word in ("to", "of", "for", "about")  # left of a filler
    verb = before[-1]
    subject = [token.word.rpartition(" ")[2] for token in before[:-1]]
    is_ending = preposition.word == "in" and verb.word in _ENDINGS
    if verb.word in _EQUALITY or is_ending:
        return not is_ending or not subject or not _COURSES.isdisjoint(subject)
    if preposition.word == "with":
        return any(token.word.partition(" ")[0] in _STATING_WITH for token in before[-3:])
    is_goal = preposition.word in ("to", "into") and verb.word.startswith(_CHANGING)
    if is_goal or verb.classes & _GOVERNORS.get(preposition.word, NO_CLASSES):  # "that changed it to 42"
        return is_goal or not (
            preposition.word in ("to", "for") and verb.classes & {"answer"} and not verb.classes & {"result"}
        )
    is_found = preposition.word == "of" and is_found_noun(before)
    has_unit = bool(right) and not right[0].classes & {"copula", "linking", "no_unit"}
    return is_found or (has_unit and "answer" not in classes_in(before))


_AUTHORS: Final = words_of("i we you i'd i'll i've i'm we'd we'll we've we're one")


def is_of_another(left: Sequence[TextToken], right: Sequence[TextToken]) -> bool:
    """Whether a sentence tells what another person gets, has or gives: "my friend got 42"."""
    is_relative = any(  # "Those who get 42 forgot a term"
        token.word == "who" and following.classes & {"epistemic"} for token, following in pairwise(left)
    )
    classes = classes_in(left)
    is_person = len(left) > 1 and left[0].word == "one" and is_source(left[1])  # "one reader"
    if "hearsay" in classes or any(t.word.partition(" ")[0] in _AUTHORS for t in left[int(is_person) :]):
        return "hearsay" in classes
    sources = [index for index, token in enumerate(left) if is_source(token)]
    if not sources:
        return begins_with_name(left) and not right
    behind = left[sources[0] + 1 :]
    if "approval" in classes_in(behind[:1]):
        return False  # "The book agrees with my result of 42"
    if is_relative or classes & {"answer", "belief"}:
        return True
    is_pronoun = left[sources[-1]].word in ("he", "she", "they", "who", "many", "most", "few", "another")
    verbs = [token for token in behind if "epistemic" in token.classes]
    if is_pronoun and verbs and verbs[0].word in ("have", "has", "had", "give", "gives", "gave"):
        return False
    # "My uncle lives in Oslo", "A commenter suggests Oslo"
    is_person = sources[0] == 1 and left[0].word in ("my", "our", "a", "an", "one", "another")
    return (bool(verbs) or is_person) and not right


def is_of_author(left: Sequence[TextToken], right: Sequence[TextToken]) -> bool:
    """Whether a value counts something of the author: "42 lines in my notes", "I skipped 42 pages"."""
    if any(token.word in ("my", "our") for token in right):
        return not classes_in(right) & {"answer", "confirm"} and not classes_in(left) & {"answer"}
    if not left or left[0].word not in ("i", "i've", "i had"):
        return False
    verb = next((token for token in left[1:] if not is_filler(token)), None)
    return verb is not None and not verb.classes and not classes_in(left) & {"answer", "copula", "epistemic"}


TREATING: Final = words_of("distinguish consider examine treat inspect go cover handle discuss")
WORK_NOUNS: Final = words_of(
    "equations unknowns variables constraints inequalities cases subcases terms conditions relations"
)


def is_setup(left: Sequence[TextToken], right: Sequence[TextToken]) -> bool:
    """Whether a clause counts what the work begins with: "we have 42 equations", "42 cases to treat"."""
    if any(token.word == "to" and following.word in TREATING for token, following in pairwise(right)):
        return True
    is_own = len(left) > 1 and left[0].word in ("we", "i") and left[1].word in ("have", "need", "use", "used")
    return is_own and bool(right) and right[0].word in WORK_NOUNS


def is_told_by_source(tokens: Sequence[TextToken]) -> bool:
    """Whether a remark says who states the value in front of it: "or so my tutor says"."""
    return (
        len(tokens) > 2  # noqa: PLR2004  (a source, its verb, a word between them or a lead)
        and "report" in tokens[-1].classes
        and "source" in classes_in(tokens[:-1])
        and not classes_in(tokens) & {"negative", "approval"}
    )


def is_sought(aside: Clause) -> bool:
    """Whether an aside says that its noun is what the task asks for: "the median, which we want, is 42"."""
    words = {word for token in aside.tokens for word in token.word.split()}
    is_relative = aside.lead is not None and aside.lead.word == "which" and not aside.values
    return is_relative and not SOUGHT.isdisjoint(words) and "negative" not in aside.classes()


_RESTATING: Final = words_of("restate repeat rephrase recap reread recall summarise summarize paraphrase")


def is_restated(tokens: Sequence[TextToken]) -> bool:
    """Whether words announce the question once more: "Let me restate the problem"."""
    words = {word for token in tokens for word in token.word.split()}
    return not words.isdisjoint(_RESTATING) and not words.isdisjoint(_TASKS)


ASKS: Final = words_of("asks asked ask wants want asking wanted")


def asks(tokens: Sequence[TextToken]) -> bool:
    """Whether a sentence begins by telling what the task asks: "The question asks for", "You asked for"."""
    words = [word for token in tokens[:4] for word in token.word.split()]
    if len(words) < 3:  # noqa: PLR2004  ("the", the task, a verb)
        return False
    is_task = words[0] in ("the", "this", "our", "okay") and words[1] in _TASKS and words[2] in ASKS
    return is_task or (words[0] == "you" and words[1] in ASKS)


_ACCORDING: Final = words_of("laut selon según secondo segundo conforme volgens według согласно göre enligt")
_TEXTS: Final = (
    "text",
    "testo",
    "tekst",
    "текст",
    "artik",
    "artic",
    "artíc",
    "artig",
    "passag",
    "docum",
    "dokum",
)
"""Beginnings of names of the text that a task gives, in several languages."""
_RECKONINGS: Final = words_of(
    "arithmetic algebra calculation computation mathematics math logic formula check rule theorem equation "
    "program code output"
)
_FACTS: Final = words_of(
    "text passage data evidence definition theory rule law facts numbers table graph source record records "
    "register charter deed ledger inscription census archive archives chronicle document documents "
    "paragraph line sentence excerpt"
)
_REPORTERS: Final = words_of("i we i'd i'll i've i'm we'd we'll we've we're let us")
_STATING_BASE: Final = words_of("say claim state report think believe guess")
_STILL: Final = words_of("now then instead still and so")


def is_own_report(tokens: Sequence[TextToken]) -> bool:
    """Whether the author is the one who says what a clause reports: "I claim", but not "they told me"."""
    for index, token in enumerate(tokens):
        if "report" in token.classes and not any(
            t.word.partition(" ")[0] in _REPORTERS for t in tokens[max(0, index - 5) : index + 1]
        ):
            if index > 1 and tokens[index - 1].word == "to" and "quantity" in tokens[index - 2].classes:
                continue  # "the number to report is 42"
            if token.word in _ACCORDING and any(
                t.word.startswith(_TEXTS) for t in tokens[index + 1 : index + 4]
            ):
                continue  # "Laut Text"
            if (
                index
                and token.word in _STATING_BASE
                and all(t.word in _STILL or is_filler(t) for t in tokens[:index])
            ):
                continue  # "I take back 41 and now say 42"
            if token.word in GUESSES and index and tokens[index - 1].word in ("my", "our", "final"):
                continue
            return any(t.word in _RECKONINGS | _FACTS for t in tokens[max(0, index - 2) : index])
    return True


def is_saying(heading: Clause) -> bool:
    """Whether another person says what follows a comma: "Tom sagt, es sei Riga"."""
    tokens = heading.tokens
    openers = [token.word for token in (heading.lead, *tokens[:1]) if token is not None]
    return (
        "as" not in openers  # "As Anna says, it is Riga" agrees
        and len(tokens) > 1
        and "report" in tokens[-1].classes
        and not is_own_report(tokens)
    )


def is_in_place(left: Sequence[TextToken], right: Sequence[TextToken]) -> bool:
    """Whether a value is put in for another one: "With 42 in its place, the equation breaks"."""
    return [token.word for token in left] == ["with"] and bool(right) and right[-1].word == "place"


_SECOND_PLACES: Final = words_of("second next third runner-up closest")
_CHOICES: Final = words_of(
    "choice pick guess favourite favorite preference place runner-up answer option candidate"
)


def is_passed_over(tokens: Sequence[TextToken]) -> bool:
    """Whether a clause tells what would have come second: "Oslo would have been my second choice"."""
    words = {word for token in tokens for word in token.word.split()}
    is_past = "would" in words and ("been" in words or "be" in words or "come" in words)
    return is_past and not words.isdisjoint(_SECOND_PLACES) and not words.isdisjoint(_CHOICES)


def sets_beside(clause: Clause) -> bool:
    """Whether a clause adds a second answer to another one."""
    tokens = [token for token in (clause.lead, *clause.tokens) if token is not None]
    at = next((index for index, token in enumerate(tokens) if "alternative" in token.classes), None)
    if at is None:
        return False
    if is_passed_over(tokens):
        return False
    # "One could also draw it" adds a way, and no answer.
    is_way = tokens[at].word.endswith(" also") and at + 1 < len(tokens) and not clause.values
    return not is_way or "copula" in tokens[at + 1].classes


_ANSWERING: Final = words_of("pick picks picked")
_PICKING: Final = words_of("pick picks picked choose chooses chose draw draws drew put puts selected")


def takes_things(left: Sequence[TextToken], right: Sequence[TextToken], *, is_name: bool) -> bool:
    """Whether a verb of choosing takes things, no answer: "they picked 42 pounds", "they chose Riga"."""
    verb = left[-1].word.rpartition(" ")[2] if left else ""
    if is_name and verb in _ANSWERING:  # "she picked Riga" reports her answer
        return False
    is_thing = is_name or (bool(right) and right[0].kind == "word" and not right[0].classes)
    return is_thing and verb in _PICKING


_MENTIONING: Final = words_of("mention mentions mentioned discusses returns")


def is_mention(left: Sequence[TextToken], right: Sequence[TextToken]) -> bool:
    """Whether a clause only tells what a text is about: "the passage mentions Riga", "it is about Riga"."""
    if not left or (right and right[0].word == "as"):
        return False
    is_topic = left[-1].word == "about" and len(left) > 1 and "copula" in left[-2].classes
    return is_topic or left[-1].word in _MENTIONING


def ordinal_in(tokens: Sequence[TextToken]) -> int | None:
    """Return which value of a list a clause says to be right: "only the last one checks out"."""
    at = next((index for index, token in enumerate(tokens) if _ordinal(token) is not None), None)
    if at is None or classes_in(tokens) & {"negative", "reject", "fault", "would", "suppose"}:
        return None
    behind = tokens[at + 1 :]
    return _ordinal(tokens[at]) if behind and "confirm" in classes_in(behind[-3:]) else None


ORDINALS: Final = {"first": 0, "former": 0, "second": 1, "latter": -1, "third": 2, "fourth": 3, "last": -1}
"""Words for a value of a list, by its place in it."""


def _ordinal(token: TextToken) -> int | None:
    words = token.word.split()
    return next((ORDINALS[word] for word in words if word in ORDINALS), None)


_PARTICLES: Final = words_of("it them us me him her back up down out away off")


def has_unit_of_verb(words: Sequence[TextToken], right: Sequence[TextToken]) -> bool:
    """Whether an unknown verb takes a value with its unit: "the farmer ploughs 42 acres"."""
    words = list(words)
    while words and words[-1].word in _PARTICLES:
        words.pop()  # "the trip sets them back 42 dollars"
    return (
        len(words) > 1
        and is_third_person(words[-1])
        and len(right) == 1
        and not right[0].classes
        and right[0].word.endswith("s")
    )
