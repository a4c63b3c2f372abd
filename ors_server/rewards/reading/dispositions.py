"""Tells what the words around a value do with it: exclude it, continue with it, or favour another. Pure."""

from collections.abc import Sequence
from typing import Final

from ors_server.rewards.reading.frame_words import is_filler
from ors_server.rewards.reading.left_frames import FUNCTIONS
from ors_server.rewards.reading.polarity import words_of
from ors_server.rewards.reading.sentences import MAX_NEAR_WORDS, Clause, TextToken, Value, classes_in

OPERATIONS: Final = words_of(
    "subtract add multiply divide double halve square round triple deduct increase decrease adjust factor "
    "factorise factorize expand rewrite convert substitute plug continue proceed repeat"
)
_SUBJECTS_AND_ORDER: Final = words_of(
    "which that this it we i you one and but then still now next afterwards later"
)
"""Words in front of the verb of a clause that goes on with a value."""
_NUMBERING: Final = words_of("is was left at on see under to skip")
"""Words in front of the number of a thing."""
_DUE: Final = frozenset({"must be", "has to be", "have to be", "needs to be", "is to be", "remains to be"})
_FUNCTION_PHRASES: Final = (["digit", "sum"], ["cross", "sum"], ["absolute", "value"])
"""What is computed from a value: "the digit sum of 42"."""
_FIRST_WORDS: Final = words_of("now next then first finally so and please just let's afterwards again")
_WORKING: Final = words_of(
    "compute calculate evaluate simplify expand multiply add subtract divide solve do computing calculating "
    "evaluating simplifying"
)
"""Verbs of what is done with an expression; "find" and "get" may state the result."""
_ANNOUNCING: Final = words_of(
    "let me us let's now next then first finally so and please just again to must need have will can i we "
    "i'll we'll should by start step is with for this the"
)
"""Words in front of such a verb that only announce it."""
_PENDING_WORDS: Final = words_of("still yet then now only")
_PARTICIPLES: Final = words_of("split cut put spread shared taken paid spent")
PROGRESS: Final = words_of(
    "loaded loading processed processing downloaded downloading uploaded uploading fetched fetching parsed "
    "parsing compiled compiling installed installing copied copying indexed indexing imported importing "
    "exported exporting scanned scanning retried retrying rendered rendering cached caching synced syncing "
    "merged deployed cloned executed executing dispatched logged dumped trained training queued "
    "running restarting"
)
"""Words with which a program reports its progress: "Loaded 42 records"."""
KEEPING: Final = words_of("remember recall memorise memorize insert where")
_OF_USERS: Final = words_of(
    "ask asks asked gave told asked wrote mentioned provided stated specified suggested typed entered"
)
TASK_NOUNS: Final = words_of("problem question task exercise statement prompt text")
_TELLING: Final = words_of("gives states mentions says provides contains asks tells")
_SHARES: Final = words_of("half third quarter fifth tenth some most")
HAVING: Final = words_of("has have had contains needs takes requires")
EMBEDDED: Final = words_of("what how whether")
PARTWAY: Final = words_of("after by within during nach après después dopo depois na po")
_OF: Final = words_of("of von de di van из z")
_COUNTS: Final = words_of(
    "one two three four five six seven eight nine ten first second third fourth fifth sixth seventh "
    "eighth ninth zwei drei vier fünf sechs sieben acht neun zehn deux trois quatre cinq sept huit neuf "
    "dix dos tres cuatro cinco seis siete ocho diez due tre quattro cinque sei sette otto dieci dois três "
    "quatro sete oito"
)
_LEFT: Final = words_of("left remain remaining go missing")
_AHEAD: Final = words_of("following below next underneath hereafter")


def is_for_to_be(left: Sequence[TextToken], right: Sequence[TextToken]) -> bool:
    """Whether a value is the subject of a purpose: "for 42 to be the answer"."""
    return (
        len(left) == 1
        and left[0].word == "for"
        and len(right) > 1
        and (right[0].word, right[1].word) == ("to", "be")
    )


def is_lone_denial(clause: Clause) -> bool:
    """Whether a clause is nothing but a negation, whose object follows an aside: "and not,"."""
    return not clause.values and len(clause.tokens) == 1 and clause.tokens[0].word.endswith("not")


def is_speaker(tokens: Sequence[TextToken]) -> bool:
    """Whether words begin with a name and a verb of saying: "Bob says"."""
    name = tokens[0]
    is_name = name.is_capital and not name.classes and not is_filler(name)
    return is_name and len(tokens) > 1 and "report" in tokens[1].classes


def announces_denial(heading: Clause) -> bool:
    """Whether a heading says that what follows is wrong: "What's in the following box is not the answer:"."""
    words = {word for token in heading.tokens for word in token.word.split()}
    classes = heading.classes()
    is_wrong = bool(classes & {"reject", "fault"}) or (
        "negative" in classes and bool(classes & {"answer", "confirm"})
    )
    return is_wrong and bool(words & _AHEAD)


def is_no_subject(left: Sequence[TextToken]) -> bool:
    """Whether nothing is stated to be a value: "No solution equals 42"."""
    return (
        len(left) > 1
        and left[0].word.startswith("no ")
        and "copula" in left[1].classes
        and "pronoun" not in left[1].classes
    )


def is_whole(value: Value, left: Sequence[TextToken]) -> bool:
    """Whether a value is the whole of which a sentence takes a part: "of the 42 seats"."""
    is_opening = bool(left) and left[0].word in ("of", "out of") and value.clause.lead is None
    return is_opening and len(left) <= MAX_NEAR_WORDS + 1 and not classes_in(left[1:])


def is_operand(left: Sequence[TextToken]) -> bool:
    """Whether the reader is asked to compute with a value: "Add 42 and the rest", "Now multiply 42 by 3"."""
    return bool(left) and left[-1].word in OPERATIONS and all(t.word in _FIRST_WORDS for t in left[:-1])


def orders_working(words: Sequence[TextToken]) -> bool:
    """Whether words order or announce the working of an expression: "Let me compute", "We need to add".

    "We compute" may state the result.
    """
    texts = [part for token in words for part in token.word.split()]
    if not texts or texts[-1] not in _WORKING or texts[-2:-1] in (["we"], ["i"]):
        return False
    return all(text in _ANNOUNCING for text in texts[:-1])


def is_on_the_way(value: Value, left: Sequence[TextToken]) -> bool:
    """Whether the words in front of a value count, number or compute with something else than the answer."""
    return (
        is_whole(value, left)
        or is_whole_of(value, left)
        or is_operand(left)
        or is_numbered(left)
        or is_progress(left)
        or is_kept(left)
        or is_given(left)
        or is_property(value, left)
        or is_partway(left)
        or (len(left) == 1 and left[0].word == "including")
    )


def is_partway(left: Sequence[TextToken]) -> bool:
    """Whether a clause tells how things stand before the end: "after two of five rounds the score is 42"."""
    if not left or left[0].word not in PARTWAY:
        return False
    for first, link, second in zip(left[1:4], left[2:5], left[3:6], strict=False):
        is_count = first.kind == "value" or first.word.rpartition(" ")[2] in _COUNTS
        is_whole = second.kind == "value" or (second.word in _COUNTS and second.word != first.word)
        if is_count and is_whole and link.word in _OF:
            return True
    return False


def is_operation(tokens: Sequence[TextToken]) -> bool:
    """Whether words go on to compute: "now divide by six"."""
    words = [word for token in tokens for word in token.word.split() if word not in _FIRST_WORDS]
    return bool(words) and words[0] in OPERATIONS


def is_of_function(left: Sequence[TextToken]) -> bool:
    """Whether the answer is computed from a value: "the answer is the digit sum of 42"."""
    if len(left) < 3 or left[-1].word != "of":  # noqa: PLR2004  ("is half of")
        return False
    words = [word for token in left[-6:-1] for word in token.word.split()]
    is_function = words[-1] in FUNCTIONS or words[-2:] in _FUNCTION_PHRASES
    is_function = is_function and words[-2:] != ["a", "remainder"]
    return is_function and any("copula" in token.classes for token in left[:-2])


def goes_on(tokens: Sequence[TextToken]) -> bool:
    """Whether a remark computes with the value in front of it: "the area is the square of that"."""
    words = [word for token in tokens for word in token.word.split()]
    is_function = (
        len(words) > MAX_NEAR_WORDS
        and words[-1] in ("that", "it", "this", "these")
        and words[-2] in ("of", "twice")
    )
    is_function = is_function and (words[-2] == "twice" or words[-3] in FUNCTIONS)
    is_left = words[-1] in _LEFT and not _COUNTS.isdisjoint(words)
    return is_function or is_left or words[0] == "next"


def uses_part(tokens: Sequence[TextToken]) -> bool:
    """Whether words take a part of what is in front of them: "and sells half of them"."""
    words = [word for token in tokens for word in token.word.split()]
    shares = [index for index, word in enumerate(words) if word in _SHARES]
    return len(words) > MAX_NEAR_WORDS and any(
        words[at + 1 : at + 3] in (["of", "them"], ["of", "it"]) for at in shares
    )


def is_numbered(left: Sequence[TextToken]) -> bool:
    """Whether a value is the number of a thing: "this is attempt number 42"."""
    if len(left) < MAX_NEAR_WORDS or left[-1].word != "number":
        return False
    # "I skipped number 42", "the problem is number 42"; but "the number 42"
    verb = left[-2]
    is_object = verb.word.endswith("ed") or verb.word in _NUMBERING
    return "label" in verb.classes or is_object


def is_kept(left: Sequence[TextToken]) -> bool:
    """Whether the reader is asked to keep a value for later: "Remember 42", "where 42 is the row"."""
    return bool(left) and left[0].word in KEEPING and all(is_filler(token) for token in left[1:])


def is_kept_in_mind(left: Sequence[TextToken], right: Sequence[TextToken]) -> bool:
    """Whether the reader is asked to remember a value: "keep 42 in mind"."""
    behind = " ".join(token.word for token in right[:2])
    return bool(left) and left[-1].word in ("keep", "keeping", "bear") and behind == "in mind"


def is_given(left: Sequence[TextToken]) -> bool:
    """Whether a value is one that the task gives: "Given a number 42", "the known side is 42"."""
    words = [token.word for token in left[:3]]
    if not words or any(token.classes & {"answer"} for token in left):
        return False
    is_known = "copula" in left[-1].classes and "known" in words and words[0] in ("the", "a")
    is_of_task = len(words) > 2 and words[1] in TASK_NOUNS and left[2].word in _TELLING  # noqa: PLR2004  ("the", a noun, a verb)
    return is_known or is_of_task or words[0] in ("given", "using")


def is_property(value: Value, left: Sequence[TextToken]) -> bool:
    """Whether a value counts parts of the answer: "the answer has 42 digits"."""
    return (
        len(left) > 1
        and left[-1].word in HAVING
        and "answer" in left[-2].classes
        and value.clause.tokens[-1] is not value.token
    )


def is_progress(left: Sequence[TextToken]) -> bool:
    """Whether a line without a subject reports what a program does: "Loaded 42 records"."""
    return bool(left) and left[0].word in PROGRESS and all(is_filler(token) for token in left[1:])


def is_whole_of(value: Value, left: Sequence[TextToken]) -> bool:
    """Whether a value is the whole of the value in front of it: "task 42 of 765"."""
    return (
        len(left) > 1
        and left[-1].word in ("of", "out of")
        and left[-2].kind == "value"
        and value.clause.values[0] is not value
    )


def is_of_user(left: Sequence[TextToken]) -> bool:
    """Whether a value is the user's: "you want to know what 42 stands for", "you gave me 42"."""
    if not left or left[-1].word in EMBEDDED:
        return bool(left)
    return left[0].word == "you" and any(token.word.partition(" ")[0] in _OF_USERS for token in left[1:3])


def is_pending(tokens: Sequence[TextToken]) -> bool:
    """Whether more is to be done with a value: "to be doubled", "still to be split three ways"."""
    words = [token for token in tokens if token.word not in _PENDING_WORDS]
    if words and words[0].word in ("needs", "has", "have", "remains", "is", "are"):
        words = words[1:]
    elif words and words[0].word in _DUE:
        return len(words) > 1 and words[1].word.endswith("ed")
    if len(words) <= MAX_NEAR_WORDS or (words[0].word, words[1].word) != ("to", "be"):
        return False
    participle = words[2]
    if participle.classes & {"apt", "confirm", "harmless", "answer"}:
        return False  # "42, to be exact"
    return (
        "operation" in participle.classes or participle.word.endswith("ed") or participle.word in _PARTICIPLES
    )


def is_to_be_changed(tokens: Sequence[TextToken]) -> bool:
    """Whether more must be done with a value: "which must be doubled", "this is then halved"."""
    if classes_in(tokens) & {"approval", "answer", "reject", "negative", "fault"}:
        return False
    if is_pending(tokens):
        return True
    rest = [token for token in tokens if token.word not in _SUBJECTS_AND_ORDER]
    if not rest or len(rest) == len(tokens):
        return False
    first, behind = rest[0], rest[1:3]
    if first.word in OPERATIONS:
        return True
    is_due = first.word in _DUE
    is_passive = is_due or first.word in ("is", "are", "gets", "being")
    is_changed = any("operation" in token.classes and token.word.endswith("ed") for token in behind)
    return is_passive and (is_changed or (is_due and bool(behind) and rest[-1].word.endswith("ed")))


def is_no_solution(right: Sequence[TextToken]) -> bool:
    """Whether a value is stated to be none: "42 is no solution"."""
    return len(right) == 2 and "copula" in right[0].classes and right[1].word.startswith("no ")  # noqa: PLR2004  (a verb and the phrase)


def is_wrong_way(left: Sequence[TextToken]) -> bool:
    """Whether a value is found in a wrong way: "with a wrong sign one gets 42"."""
    if len(left) < 3 or left[0].word not in ("with", "using") or left[1].word.endswith("ing"):  # noqa: PLR2004  ("with", its object, a subject)
        return False
    return bool(classes_in(left[1:4]) & {"reject", "fault", "erring"})
