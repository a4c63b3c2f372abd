"""Tells the sentences that may state a value from words around one. Pure.

A value is stated behind a verb of results or a noun for the answer ("that leaves 42"), by itself ("So 42.")
or with a unit ("42 red balloons"). Words that no list knows do not speak for it: an unknown preposition
("the answer ends in 42"), an unknown noun ("Psalm 42"), a clause behind it.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from ors_server.rewards.reading.polarity import NO_CLASSES, Classes, classes_of, words_of
from ors_server.rewards.reading.sentences import NEAR, Clause, TextToken, classes_in

FILLERS: Final = words_of("so thus hence then and or nor but finally ok okay well now the a an of to for all")
_DETERMINERS: Final = words_of(
    "the a an all her his my our their its those these just both exactly precisely only even simply that"
)
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
_STATING_WITH: Final = words_of(
    "left go goes went going end ends ended ending come comes came up finish finishes finished wind "
    "wound stay stick stuck "
    "leaves leaving conclude answer remain be am 're satisfied"
)
FUNCTIONS: Final = words_of(
    "half double triple twice third quarter fifth square cube root reciprocal inverse negative"
    " opposite complement "
    "logarithm factorial divisors factors digits multiple divisor factor remainder successor predecessor"
)
"""What is computed from a value: "half of 42"."""
_COMPUTED_FROM: Final = FUNCTIONS - {"remainder"} | words_of(
    "power function combination pair set list series grid kind ratio"
)
_ENDINGS: Final = words_of("ends end ended ending results result resulted resulting culminates culminated")
_COURSES: Final = words_of(
    "computation calculation process procedure work working sum derivation this it that chain argument all"
)
"""What ends in its result; an answer or a number that ends in 42 only has these digits."""
_ADVERBIAL: Final = frozenset({"maybe", "harmless", "yes"})
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
_MODALS: Final = words_of("could can may might would should must will shall cannot")
ASKING: Final = frozenset({"how", "why"})
_ERROR_STARTS: Final = frozenset({"fault", "erring"})
_IN_FRONT_OF_OBJECTS: Final = words_of(
    "the a an it this that its no every each all another many most some few my his her their our your them "
    "us me him nobody everybody nothing everything"
)
_FOR_FALSE: Final = frozenset({"by", "from", "after", "when", "if"})
_RELATIVE: Final = frozenset({"that", "which", "who"})
_OBJECTS: Final = words_of("it this that everything all us me them itself together up down out back nicely")
_EQUALITY: Final = words_of("equal identical equivalent congruent equals answer: same")
_UNIT_LINKS: Final = words_of(
    "of per in on at for from the a an each every left more altogether total and to with by"
)
_MAX_UNKNOWN: Final = 3
"""Words of an unknown unit."""
_MIN_NOUN: Final = 2
_MIN_VERB: Final = 3
_THINGS: Final = frozenset({"theorem", "work"})
"""Classes of arguments, of which an unknown verb says what they do to a value."""
_PARTS: Final = words_of(
    "part half previous other another different next subproblem subquestion sub-question step warm-up "
    "easier simpler related similar "
    "opposite earlier last's preceding"
)
THIRD_PERSON: Final = frozenset({"his", "her", "their", "your"})
GUESSES: Final = words_of("guess claim opinion suggestion proposal bet conjecture attempt reply version")
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
_AUTHORS: Final = words_of("i we you i'd i'll i've i'm we'd we'll we've we're one")
_OPINIONS: Final = frozenset({"suppose", "assume", "presume", "imagine"})
_MERE_NOUNS: Final = words_of("the a an part half one my our his her its their")
_SOUGHT: Final = words_of("asked wanted sought needed required want need seek after looking for wants")
OLD: Final = words_of("old older previous earlier former different another alternate alternative parallel")
_OTHERS: Final = words_of("a many most some people others everybody everyone he she they")
_HASTY: Final = words_of("careless hasty naive unwary impatient lazy")
FICTIONS: Final = words_of("movie film novel song joke")
_EDITIONS: Final = words_of("edition version draft printing textbook book key")
TREATING: Final = words_of("distinguish consider examine treat inspect go cover handle discuss")
WORK_NOUNS: Final = words_of(
    "equations unknowns variables constraints inequalities cases subcases terms conditions relations"
)
_WHOLES: Final = words_of("the them these those his her my our their its all")
_SHARES_OF: Final = frozenset({"half of", "a third of", "a quarter of", "twice", "double"})
_PLACING: Final = words_of("between under over below above within beyond behind around")
_ELSE: Final = words_of("other else different others")
_SECOND_PLACES: Final = words_of("second next third runner-up closest")
_CHOICES: Final = words_of(
    "choice pick guess favourite favorite preference place runner-up answer option candidate"
)
_COUNTED_VERBS: Final = words_of(
    "take have had play played study speak own like liked hold contain need eat drink read use know attend "
    "took studied spoke owned chose choose passed pass solved solve visited visit voted got get bought buy"
)
_ANSWERING: Final = words_of("pick picks picked")
_PICKING: Final = words_of("pick picks picked choose chooses chose draw draws drew put puts selected")
_POSSESSIVES: Final = words_of("his her their its")
_RELATIONS: Final = words_of(
    "brother sister father mother wife husband son daughter uncle aunt cousin friend friends"
    " colleague rival parents "
    "teacher neighbour neighbor grandfather grandmother successor predecessor brothers sisters"
)
_MENTIONING: Final = words_of("mention mentions mentioned discusses returns")
_RESTATING: Final = words_of("restate repeat rephrase recap reread recall summarise summarize paraphrase")
_TASKS: Final = words_of("problem question task exercise statement prompt puzzle setup")
ASKS: Final = words_of("asks asked ask wants want asking wanted")
_PARTICLES: Final = words_of("it them us me him her back up down out away off")
_STATING_BASE: Final = words_of("say claim state report think believe guess")
_STILL: Final = words_of("now then instead still and so")
_SOME: Final = words_of("some many several other most few certain")
_SELVES: Final = frozenset({"i", "we", "i'd", "we'd", "i suppose", "i assume"})


def is_filler(token: TextToken) -> bool:
    """Whether a word in front of a value says nothing of it: a determiner, a letter, an adverb."""
    word = token.word
    return (
        word in FILLERS
        or word in _DETERMINERS
        or len(word) == 1
        or (not token.classes and word.endswith("ly"))
        or token.classes == frozenset({"harmless"})
    )


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
    return is_past or (len(words) != 1 and not _is_third_person(governor))


def _is_third_person(token: TextToken) -> bool:
    """Whether a word may be a verb in the third person: "the last line kills 42"."""
    word = token.word
    return word.endswith("s") and len(word) > _MIN_VERB and word[-2] not in "siu'"


def _preposition_states(words: Sequence[TextToken], right: Sequence[TextToken]) -> bool:
    preposition = words[-1]
    if preposition.classes & {"bound", "negative", "trial", "operation", "copula", "answer", "result"}:
        return True  # judged by other rules, or a part of a known phrase
    before = [token for token in words[:-1] if token.word not in _OBJECTS or token.classes & {"answer"}]
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
    is_found = preposition.word == "of" and _is_found_noun(before)
    has_unit = bool(right) and not right[0].classes & {"copula", "linking", "no_unit"}
    return is_found or (has_unit and "answer" not in classes_in(before))


def _is_found_noun(before: Sequence[TextToken]) -> bool:
    """Whether a verb of results has found a quantity with an article: "this yields an inradius"."""
    nouns = list(before)
    while nouns and not nouns[-1].classes and nouns[-1].word not in ("a", "an"):
        nouns = nouns[:-1]
    is_relation = any(word in _COMPUTED_FROM for token in before[len(nouns) :] for word in token.word.split())
    return (
        len(nouns) > 1
        and len(nouns) < len(before)
        and nouns[-1].word in ("a", "an")
        and "result" in nouns[-2].classes
        and not is_relation
    )


def states_behind(words: Sequence[TextToken]) -> bool:
    """Whether a verb states the value behind its preposition: "adding the tip brings it to 42"."""
    before = [token for token in words[:-1] if token.word not in _OBJECTS]
    return (bool(before) and {"quantity", "result"} <= before[-1].classes) or _is_found_noun(words[:-1])


def is_unit(right: Sequence[TextToken]) -> bool:
    """Whether words behind a bare value may be its unit: "jars of honey", "people in the room"."""
    unknown = 0
    for index, token in enumerate(right):
        if token.kind != "word":
            return True
        if index == 0 and token.classes & {"confirm", "answer", "harmless", "quantity"}:
            return token.word not in ("what", "how")
        if "no_unit" in token.classes or (
            token.classes & {"linking"} and "confirm" not in classes_in(right[index:][1:])
        ):
            return False
        is_link = token.word in _UNIT_LINKS
        if not is_link and "preposition" in token.classes and unknown > 1:
            return False  # "sheep jump over the fence"
        unknown = 0 if is_link else unknown + (not token.classes)
        if unknown > _MAX_UNKNOWN:
            return False
    return True


def is_of_another(left: Sequence[TextToken], right: Sequence[TextToken]) -> bool:
    """Whether a sentence tells what somebody else gets, has or gives: "my friend got 42"."""
    is_relative = any(  # "Those who get 42 forgot a term"
        token.word == "who" and following.classes & {"epistemic"} for token, following in pairwise(left)
    )
    classes = classes_in(left)
    is_person = len(left) > 1 and left[0].word == "one" and _is_source(left[1])  # "one reader"
    if "hearsay" in classes or any(t.word.partition(" ")[0] in _AUTHORS for t in left[int(is_person) :]):
        return "hearsay" in classes
    sources = [index for index, token in enumerate(left) if _is_source(token)]
    if not sources:
        return _is_name(left) and not right
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


def _is_source(token: TextToken) -> bool:
    """Whether a word is a person or a writing, or what belongs to one: "my neighbour's sheet"."""
    stem, _, ending = token.word.rpartition("'")
    return "source" in token.classes or (ending == "s" and "source" in classes_of(stem))


def is_answer_of_another(left: Sequence[TextToken]) -> bool:
    """Whether a clause is about somebody else's answer: "Tom's answer is", "his guess was"."""
    for index, owner in enumerate(left[:-1]):
        noun = left[index + 1]
        if not noun.classes and noun.kind == "word" and index + 2 < len(left):
            noun = left[index + 2]  # "the forum's top answer"
        if "answer" not in noun.classes and noun.word not in GUESSES:
            continue
        if owner.word in THIRD_PERSON:
            return True
        is_name = owner.word.endswith("'s") and owner.is_capital and "copula" not in owner.classes
        is_name = is_name or owner.word in ("year's", "week's", "month's", "semester's", "yesterday's")
        if is_name or ("'" in owner.word and _is_source(owner)):
            return True
    return False


def is_of_author(left: Sequence[TextToken], right: Sequence[TextToken]) -> bool:
    """Whether a value counts something of the author: "42 lines in my notes", "I skipped 42 pages"."""
    if any(token.word in ("my", "our") for token in right):
        return not classes_in(right) & {"answer", "confirm"} and not classes_in(left) & {"answer"}
    if not left or left[0].word not in ("i", "i've", "i had"):
        return False
    verb = next((token for token in left[1:] if not is_filler(token)), None)
    return verb is not None and not verb.classes and not classes_in(left) & {"answer", "copula", "epistemic"}


def has_wrong_source(right: Sequence[TextToken]) -> bool:
    """Whether words behind a value say that something wrong led to it: "came from the wrong formula"."""
    return any(
        token.word in ("from", "by", "of", "with") and following.word.startswith(("the wrong", "a wrong"))
        for token, following in pairwise(right)
    )


def is_of_old_version(left: Sequence[TextToken]) -> bool:
    """Whether a clause tells the answer of an older text: "in the old edition the answer was 42".

    The text may also be the subject: "the old edition has 42".
    """
    words = [word for token in left[:4] for word in token.word.split()]
    if words[:1] == ["in"] and not FICTIONS.isdisjoint(words):
        return True  # "In the movie the answer is 42"
    is_subject = words[:1] == ["the"] and not _EDITIONS.isdisjoint(words)
    is_place = is_subject or words[:1] == ["in"]
    return len(words) > NEAR and is_place and words[-1] not in OLD and not OLD.isdisjoint(words)


def is_setup(left: Sequence[TextToken], right: Sequence[TextToken]) -> bool:
    """Whether a clause counts what the work begins with: "we have 42 equations", "42 cases to treat"."""
    if any(token.word == "to" and following.word in TREATING for token, following in pairwise(right)):
        return True
    is_own = len(left) > 1 and left[0].word in ("we", "i") and left[1].word in ("have", "need", "use", "used")
    return is_own and bool(right) and right[0].word in WORK_NOUNS


def is_told_by_source(tokens: Sequence[TextToken]) -> bool:
    """Whether a remark says who states the value in front of it: "or so my tutor says"."""
    return (
        len(tokens) > NEAR
        and "report" in tokens[-1].classes
        and "source" in classes_in(tokens[:-1])
        and not classes_in(tokens) & {"negative", "approval"}
    )


def is_sought(aside: Clause) -> bool:
    """Whether an aside says that its noun is what the task asks for: "the median, which we want, is 42"."""
    words = {word for token in aside.tokens for word in token.word.split()}
    is_relative = aside.lead is not None and aside.lead.word == "which" and not aside.values
    return is_relative and not _SOUGHT.isdisjoint(words) and "negative" not in aside.classes()


def is_restated(tokens: Sequence[TextToken]) -> bool:
    """Whether words announce the question once more: "Let me restate the problem"."""
    words = {word for token in tokens for word in token.word.split()}
    return not words.isdisjoint(_RESTATING) and not words.isdisjoint(_TASKS)


def asks(tokens: Sequence[TextToken]) -> bool:
    """Whether a sentence begins by telling what the task asks: "The question asks for", "You asked for"."""
    words = [word for token in tokens[:4] for word in token.word.split()]
    if len(words) <= NEAR:
        return False
    is_task = words[0] in ("the", "this", "our", "okay") and words[1] in _TASKS and words[2] in ASKS
    return is_task or (words[0] == "you" and words[1] in ASKS)


def is_bounded(near: Sequence[TextToken]) -> bool:
    """Whether a bound is in front of a value: "I'd say under 42", but not "no less a number than 42"."""
    at = max((index for index, token in enumerate(near) if "bound" in token.classes), default=None)
    if at is None:
        return False
    word = near[at].word
    if word in ("above", "below") and "copula" in classes_in(near[at + 1 : at + 2]):
        return False  # "the computation above is 42"
    is_strict = word in ("under", "over", "above", "below") or word.endswith(" than")
    return "harmless" not in classes_in(near[at + 1 :] if is_strict else near)


def is_owed(left: Sequence[TextToken]) -> bool:
    """Whether a clause says what somebody has to answer: "they should answer 42"."""
    return any(
        modal.word in ("should", "must") and verb.classes & {"report", "epistemic", "answer"}
        for modal, verb in pairwise(left)
    )


def is_settled(left: Sequence[TextToken]) -> bool:
    """Whether a verb of results is behind a choice: "this removes some of them and leaves 42"."""
    at = max((index for index, token in enumerate(left) if "undecided" in token.classes), default=0)
    return left[at].word.endswith(" of") and any(
        {"copula", "result"} <= token.classes for token in left[at + 2 :]
    )


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
    """Whether somebody else says what follows a comma: "Tom sagt, es sei Riga"."""
    tokens = heading.tokens
    openers = [token.word for token in (heading.lead, *tokens[:1]) if token is not None]
    return (
        "as" not in openers  # "As Anna says, it is Riga" agrees
        and len(tokens) > 1
        and "report" in tokens[-1].classes
        and not is_own_report(tokens)
    )


def _is_name(left: Sequence[TextToken]) -> bool:
    """Whether a clause begins with a name and a verb of finding: "Tom got"."""
    if len(left) < _MIN_NOUN:
        return False
    name, verb = left[0], left[1]
    return (
        name.is_capital
        and not name.classes
        and "'" not in name.word
        and not name.word.endswith(("ing", "ion", "ly", "ment", "sis"))
        and not is_filler(name)
        and "epistemic" in verb.classes
        and "answer" not in verb.classes
        and not verb.word.endswith(" up with")
        and verb.word
        not in ("have", "has", "had", "give", "gives", "gave", "show", "shows", "showed", "find")
    )


def is_apt_answer(left: Sequence[TextToken]) -> bool:
    """Whether the noun for the answer in front of a value means the answer: not "the fashionable answer"."""
    at = next((index for index in reversed(range(len(left))) if "answer" in left[index].classes), None)
    if at is None:
        return True
    behind = left[at + 1 :]
    if any(token.word in _PARTS for token in behind):
        return False
    if not at or " " in left[at].word:
        return True
    adjective = left[at - 1]
    return (
        bool(adjective.classes)
        or is_filler(adjective)
        or adjective.word == "whose"
        or "'" in adjective.word
        or not adjective.word.isalpha()
    )


def is_label_of(left: Sequence[TextToken]) -> bool:
    """Whether a clause says the number of something that is only numbered: "the room number is 42"."""
    if len(left) < 2 or "copula" not in left[-1].classes:  # noqa: PLR2004  (a noun and its verb)
        return False
    noun = left[-2]
    is_numbered = noun.word == "number" and len(left) > 2 and "label" in left[-3].classes  # noqa: PLR2004  (what is numbered, "number", a verb)
    return is_numbered or ("label" in noun.classes and noun.word.endswith("number"))


def is_guess(left: Sequence[TextToken]) -> bool:
    """Whether "suppose" is the author's opinion: "I suppose the answer is 42"."""
    names = [token for token in left if "suppose" in token.classes]
    return all(token.word.removeprefix("i ") in _OPINIONS for token in names) and left[0].word in _SELVES


def is_mere(right: Sequence[TextToken]) -> bool:
    """Whether a predicate says that a value is something less: "is only the perimeter", "is just a step"."""
    return (
        len(right) > _MIN_NOUN
        and "copula" in right[0].classes
        and right[1].word in ("only", "just", "merely", "simply")
        and right[2].word in _MERE_NOUNS
    )


def names_quantity(right: Sequence[TextToken]) -> bool:
    """Whether a predicate only tells what a value counts: "is the number of boys"."""
    return (
        len(right) > _MIN_NOUN
        and "copula" in right[0].classes
        and right[1].word.rpartition(" ")[2] in ("number", "count", "amount", "quantity")
        and right[2].word in ("of", "on")
    )


def is_in_place(left: Sequence[TextToken], right: Sequence[TextToken]) -> bool:
    """Whether a value is put in for another one: "With 42 in its place, the equation breaks"."""
    return [token.word for token in left] == ["with"] and bool(right) and right[-1].word == "place"


def tells_what(right: Sequence[TextToken]) -> bool:
    """Whether a predicate begins with a form of "be" and "what": "is what ..."."""
    return len(right) > _MIN_NOUN and "copula" in right[0].classes and right[1].word == "what"


def is_what_others_get(right: Sequence[TextToken]) -> bool:
    """Whether a predicate tells what others take for the answer: "is what the careless get"."""
    if not tells_what(right) or classes_in(right) & {"first_person", "approval"}:
        return False
    is_hasty = right[2].word == "the" and any(token.word in _HASTY for token in right[3:5])
    return is_hasty or right[2].word in _OTHERS


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


def is_goal(right: Sequence[TextToken]) -> bool:
    """Whether a predicate says that a value is what the task asks for: "is what's asked for"."""
    return (
        len(right) > 1
        and "copula" in right[0].classes
        and right[1].word.startswith("what")
        and any(word in _SOUGHT for token in right[2:] for word in token.word.split())
    )


def is_part_counted(right: Sequence[TextToken]) -> bool:
    """Whether a value counts a part of a whole: "42 of the students are girls"."""
    return len(right) > _MIN_NOUN and right[0].word == "of" and right[1].word in _WHOLES


def is_of_whole_subject(left: Sequence[TextToken]) -> bool:
    """Whether words of a bound are about the subject: "half of them is 42", "the gap between them is 42"."""
    if len(left) <= _MIN_NOUN or "copula" not in left[-1].classes or left[-1].classes & {"bound"}:
        return False
    at = next(index for index, token in enumerate(left) if "bound" in token.classes)
    is_share = at == 0 and left[0].word in _SHARES_OF
    return is_share or (left[at].word in _PLACING and at + 2 < len(left))


def is_nothing_else(left: Sequence[TextToken]) -> bool:
    """Whether a negation leaves only the value: "I see no other way than 42"."""
    if not left or left[-1].word != "than":
        return False
    words = [word for token in left for word in token.word.split()]
    denials = [token for token in left if "negative" in token.classes]
    return len(denials) == 1 and not _ELSE.isdisjoint(words)


def takes_things(left: Sequence[TextToken], right: Sequence[TextToken], *, is_name: bool) -> bool:
    """Whether a verb of choosing takes things, no answer: "they picked 42 pounds", "they chose Riga"."""
    verb = left[-1].word.rpartition(" ")[2] if left else ""
    if is_name and verb in _ANSWERING:  # "she picked Riga" reports her answer
        return False
    is_thing = is_name or (bool(right) and right[0].kind == "word" and not right[0].classes)
    return is_thing and verb in _PICKING


def is_of_relative(left: Sequence[TextToken]) -> bool:
    """Whether a clause is about somebody near to whom the question asks for: "His brother lived in Riga"."""
    words = [word for token in left[: NEAR + 1] for word in token.word.split()]
    return len(words) > 1 and words[0] in _POSSESSIVES and not _RELATIONS.isdisjoint(words[1:3])


def is_mention(left: Sequence[TextToken], right: Sequence[TextToken]) -> bool:
    """Whether a clause only tells what a text is about: "the passage mentions Riga", "it is about Riga"."""
    if not left or (right and right[0].word == "as"):
        return False
    is_topic = left[-1].word == "about" and len(left) > 1 and "copula" in left[-2].classes
    return is_topic or left[-1].word in _MENTIONING


def is_of_some(left: Sequence[TextToken]) -> bool:
    """Whether a clause tells what some sources have: "some books name Riga"."""
    return any(
        token.word in _SOME and "source" in following.classes
        for token, following in pairwise(left[: NEAR + 1])
    )


def is_identity(right: Sequence[TextToken]) -> bool:
    """Whether words behind a value say what it is: "is the town"."""
    is_the = len(right) > 1 and "copula" in right[0].classes and right[1].word.partition(" ")[0] == "the"
    is_of_other = any(  # "is the hometown of his rival"
        owner.word in _POSSESSIVES and noun.word in _RELATIONS for owner, noun in pairwise(right)
    )
    return is_the and not is_of_other


def is_object_taker(right: Sequence[TextToken]) -> bool:
    """Whether a value is the subject of an unknown verb: "42 counts the corner twice", "42 fools many"."""
    if len(right) < _MIN_NOUN or not _is_third_person(right[0]):
        return False
    is_known = bool(right[0].classes - {"source", "oblique", "erring"})
    return not is_known and right[1].word in _IN_FRONT_OF_OBJECTS


def is_by_error(right: Sequence[TextToken]) -> bool:
    """Whether words behind a value say that an error leads to it: "by forgetting the sign"."""
    return any(
        token.word in _FOR_FALSE and following.classes & _ERROR_STARTS and following.word.endswith("ing")
        for token, following in pairwise(right)
    )


def is_of_error(left: Sequence[TextToken]) -> bool:
    """Whether an error is what leads to a value: "a common error leads to 42"."""
    at = next((index for index, token in enumerate(left) if token.classes & _ERROR_STARTS), None)
    if at is None or any(token.classes - {"apt"} and not is_filler(token) for token in left[:at]):
        return False
    behind = left[at + 1 :]
    if left[at].word.endswith("ing") and left[at].classes & {"erring"}:
        return any("result" in token.classes for token in behind)  # "forgetting the sign gives 42"
    return bool(behind) and bool(behind[0].classes & {"result"}) and behind[0].word not in ("was", "is")


def is_exclaimed(left: Sequence[TextToken]) -> bool:
    """Whether words ask how a value could be: "How could it be 42!"."""
    is_asking = len(left) > 1 and left[0].word in ASKING and left[1].word.partition(" ")[0] in _MODALS
    return is_asking and all(token.word != "not" for token in left)  # "how could it not be 42?" asserts


def is_of_subject(left: Sequence[TextToken], name: str) -> bool:
    """Whether the words of a class are about the subject: "the number that can be written so is 42"."""
    if not left or "copula" not in left[-1].classes:
        return False
    at = next((index for index, token in enumerate(left) if token.word in _RELATIVE), None)
    if not at or not classes_in(left[:at]) & {"quantity", "answer", "result", "bound"}:
        return False
    return all(index > at for index, token in enumerate(left) if name in token.classes)


def is_count_of(right: Sequence[TextToken]) -> bool:
    """Whether a value counts what words of failure describe: "42 of them are not even", "42 lost coins"."""
    denials = [
        index
        for index, token in enumerate(right)
        if token.classes & {"negative", "reject", "fault", "refuse"}
    ]
    if (
        right[0].word == "of"
        and len(right) > _MIN_NOUN
        and right[1].word in ("the", "these", "those", "them")
    ):
        return denials[0] > _MIN_NOUN
    if right[denials[0]].word in ("neither", "no", "none") and len(denials) == 1:
        # "42 pupils take neither of them", "42 of the boxes hold no coins"
        verbs = [token for token in right[1 : denials[0]] if not token.classes & {"negative"}]
        return bool(verbs) and right[0].word.endswith("s") and verbs[-1].word in _COUNTED_VERBS
    if len(right) != _MIN_NOUN or denials != [0]:
        return False
    adjective, noun = right
    is_participle = adjective.word.endswith(("ed", "en")) or adjective.word == "lost"
    return is_participle and not noun.classes and noun.word.endswith("s")


def is_too(left: Sequence[TextToken]) -> bool:
    """Whether words say that something is too much for a value: "too short to confirm 42"."""
    at = next((index for index, token in enumerate(left) if token.word == "too"), None)
    if at is None or any("negative" in token.classes for token in left[:at]):
        return False
    behind = [token.word for token in left[at + 1 : at + 5]]
    return "to" in behind and not any("copula" in token.classes for token in left[at + 1 :])


def is_adverb(token: TextToken) -> bool:
    """Whether a word only colours a negation: "not possibly", "not really"."""
    return bool(token.classes & _ADVERBIAL) or token.word.endswith("ly")


def governs_another(left: Sequence[TextToken]) -> bool:
    """Whether the only negation is "without" with its own object: "without it 42"."""
    denials = [index for index, token in enumerate(left) if token.classes & {"negative", "reject", "refuse"}]
    if len(denials) != 1 or left[denials[0]].word != "without":
        return False
    behind = left[denials[0] + 1 :]
    return bool(behind) and not is_filler(behind[-1])


ORDINALS: Final = {"first": 0, "former": 0, "second": 1, "latter": -1, "third": 2, "fourth": 3, "last": -1}
"""Words for a value of a list, by its place in it."""


def ordinal_in(tokens: Sequence[TextToken]) -> int | None:
    """Return which value of a list a clause says to be right: "only the last one checks out"."""
    at = next((index for index, token in enumerate(tokens) if _ordinal(token) is not None), None)
    if at is None or classes_in(tokens) & {"negative", "reject", "fault", "would", "suppose"}:
        return None
    behind = tokens[at + 1 :]
    return _ordinal(tokens[at]) if behind and "confirm" in classes_in(behind[-3:]) else None


def _ordinal(token: TextToken) -> int | None:
    words = token.word.split()
    return next((ORDINALS[word] for word in words if word in ORDINALS), None)


def is_counted(left: Sequence[TextToken]) -> bool:
    """Whether all words of failure are what a subject counts: "the number of mistakes is 42"."""
    if not left or "copula" not in left[-1].classes or not classes_in(left[:2]) & {"quantity", "answer"}:
        return False
    return all(
        index and left[index - 1].word in ("of", "for")
        for index, token in enumerate(left)
        if token.classes & {"reject", "refuse", "negative"}
    )


def is_way(left: Sequence[TextToken]) -> bool:
    """Whether a rejection is only the way to a value: "eliminating y yields 42"."""
    return (
        bool(left)
        and left[0].word.endswith("ing")
        and all("reject" not in token.classes for token in left[1:])
        and "result" in classes_in(left[1:])
    )


def has_unit_of_verb(words: Sequence[TextToken], right: Sequence[TextToken]) -> bool:
    """Whether an unknown verb takes a value with its unit: "the farmer ploughs 42 acres"."""
    words = list(words)
    while words and words[-1].word in _PARTICLES:
        words.pop()  # "the trip sets them back 42 dollars"
    return (
        len(words) >= _MIN_NOUN
        and _is_third_person(words[-1])
        and len(right) == 1
        and not right[0].classes
        and right[0].word.endswith("s")
    )
