"""Tells what words say of options, by their form: parts of names, sides of a choice. Pure."""

from collections.abc import Iterator, Sequence
from typing import Final

from ors_server.rewards.reading.polarity import Classes, words_of
from ors_server.rewards.reading.sentences import Clause, Sentence, TextToken, Value, classes_in

_WRONGNESS: Final = frozenset({"negative", "reject", "fault", "refuse"})
_DENYING: Final = frozenset({"negative", "harmless", "exceptive"})
_SEEMING: Final = ("sound", "seem", "look", "appear", "feel")
_EXAMPLES: Final = frozenset({"for example", "for instance", "say", "as an example", "e.g"})
_ADDING: Final = words_of("and or also plus nor maybe perhaps possibly alternatively")
_LEAVING_OPEN: Final = frozenset({"maybe", "alternative", "undecided", "negative", "reject", "suppose"})
_POSTPOSED: Final = frozenset(
    {
        "i mean",
        "i meant",
        "rather",
        "sorry",
        "that is",
        "instead",
        "pardon",
        "i should say",
        "of course",
        "correction",
    }
)
"""Words of a correction behind the name that it brings."""
_MAX_GAPPED: Final = 3
_STATING: Final = frozenset(
    {
        "copula",
        "answer",
        "confirm",
        "result",
        "correction",
        "first_person",
        "harmless",
        "negative",
        "yes",
        "reject",
    }
) | {"retract", "pronoun", "choosing"}
_NOT_GAPPED: Final = words_of(
    "so then hence thus therefore now namely finally actually instead rather but a an"
)
_TEMPORAL: Final = words_of("after before while when upon")
_PRONOUNS: Final = words_of("it this that he she they")
_LONE_LINKS: Final = words_of("for via against despite per")
_SECOND: Final = words_of("another second new a an")
_PART_WORDS: Final = words_of("of like towards toward near as than to from")
_APPOSED: Final = words_of(
    "city town capital village port island state republic kingdom country letter option choice name"
)
_SEVERAL: Final = words_of("all both each any either every")
_REMARKING: Final = frozenset({",", "and", "because", "since", "as", "(", "–", "—", "-", ";", "for"})
_COMPARED: Final = words_of("than")
_NOT_COMPARED: Final = words_of("other else rather different sooner another")
_RESTRICTING: Final = words_of("only just merely simply")
EXCEPTION: Final = words_of("but except save bar besides excepting excluding than unlike") | {
    "other than",
    "apart from",
    "aside from",
    "except for",
    "rather than",
}
ELSE: Final = words_of("other another different else others alternative")
_RHETORICAL: Final = words_of("could can would might should does")
_RHETORICAL_EXCEPTIONS: Final = frozenset(
    {"who else but", "where else but", "where else but in", "what else but"}
)
_DETERMINERS: Final = words_of("the a an his her its their where one")
_PLACE_NOUNS: Final = words_of(
    "area region district county province state airport station harbour harbor port university college "
    "school museum bridge road street square valley river bay castle cathedral company team club festival "
    "family agreement treaty accord dialect railway line theatre theater hospital basin plain zoo derby "
    "office"
)
_DISTANCES: Final = words_of(
    "way walk ride drive journey march flight mile miles km kilometre kilometres kilometer kilometers hour"
    " hours day days distance league leagues upstream downstream inland away trip sail throw minutes"
)
_SPEAKERS: Final = frozenset(
    {"first_person", "copula", "answer", "harmless", "correction", "confirm", "yes", "maybe"}
)
_GENERAL: Final = words_of(
    "let's lets you one so then to therefore thus hence and finally please let must should that this it which"
)
_MAX_CANCELLED: Final = 5
"""Words between a subject and the name that it chooses."""
_AT: Final = frozenset({"in", "at"})
_TEXTS: Final = words_of(
    "passage text author article paragraph evidence data narrator clue clues speaker context question "
    "definition wording facts everything"
)
DROPPING: Final = words_of("drop discard ignore forget skip erase disregard exclude scrap ditch omit delete")
"""Verbs whose object is not an answer: "we can safely drop A"."""
_PAST: Final = ("ed", "ught", "born", "grew up", "lt")
_EXTENT: Final = words_of("also too equally likewise well either")
_POSSIBLE: Final = words_of("would could might may can does do is are has fits works")
_OWN_SUBJECTS: Final = words_of(
    "i we i'd i'm the question text passage clue clues you that is fits remains it one"
)
_SUPERLATIVE: Final = words_of("earliest northernmost southernmost easternmost westernmost foremost")
_NOT_SUPERLATIVE: Final = words_of(
    "west east test forest interest honest modest guest request protest contest harvest rest nest "
    "priest arrest weakest worst least unlikeliest furthest closest nearest best"
)
_DECLINING: Final = words_of("don't won't shan't wouldn't can't cannot didn't refuse")
_DECLINED: Final = words_of(
    "guess bet do so say choose pick answer have to dare will it that gamble speculate"
)
_RESTARTING: Final = frozenset({"it", "it's", "it is", "it was", "that's", "this is", "that is", "there"})
_SIDE_WORDS: Final = words_of(
    "in at for by on if when according per under with before after during until from"
)


def approves_of_several(sentence: Sentence) -> bool:
    """Whether a sentence says of options in front of it that they may be right: "All three seem right."."""
    tokens = sentence.tokens
    first = tokens[0].word.partition(" ")[0] if tokens else ""
    classes = classes_in(tokens)
    return (
        first in _SEVERAL and "confirm" in classes and not classes & _WRONGNESS and not sentence.is_question
    )


def says_name_alone(sentence: Sentence) -> bool:
    """Whether a sentence is a name, and perhaps a remark behind it: "Riga, and here is why."."""
    clauses = sentence.clauses
    if sentence.is_question or not clauses or len(clauses[0].values) != 1 or len(clauses[0].tokens) != 1:
        return False
    rest = clauses[1:]
    is_remark = not rest or (rest[0].lead is not None and rest[0].lead.word in _REMARKING)
    return is_remark and not any(clause.values for clause in rest)


def denies_each(clause: Clause) -> bool:
    """Whether a clause says that no option in front of it is right: "and found nothing for either"."""
    tokens = clause.tokens
    is_lone = len(tokens) == 1 and tokens[0].word in ("neither", "none")
    return is_lone or (
        len(tokens) > 1 and tokens[-1].word in ("either", "neither") and "negative" in classes_in(tokens)
    )


def is_compared(left: Sequence[TextToken]) -> bool:
    """Whether a name is only what something is compared with: "further north than Riga"."""
    words = {word for token in left for word in token.word.split()}
    is_than = bool(left) and left[-1].word in _COMPARED
    return is_than and not words & _NOT_COMPARED and not classes_in(left[:-1]) & _DENYING


def is_only_a_part(right: Sequence[TextToken]) -> bool:
    """Whether a predicate says that a name is no more than something else: "is only the birthplace of"."""
    if len(right) < 3 or "copula" not in right[0].classes:  # noqa: PLR2004  (a verb, "only" and a noun)
        return False
    is_restricted = right[1].word in _RESTRICTING and right[2].word in _DETERMINERS
    return is_restricted and not classes_in(right[3:]) & {"confirm", "answer"}


def is_part_of_place(value: Value, left: Sequence[TextToken], right: Sequence[TextToken]) -> bool:
    """Whether a name is a part of the name of a place or a thing: "the Riga area"."""
    has_article = bool(left) and left[-1].word in ("the", "a", "an")
    is_noun = bool(right) and not right[0].is_capital
    is_noun = is_noun and (
        right[0].word in _PLACE_NOUNS or (len(right) == 1 and "source" in right[0].classes)
    )
    return has_article and is_noun and right[0].start == value.token.end + 1


def is_related(left: Sequence[TextToken], right: Sequence[TextToken], *, is_english: bool) -> bool:
    """Whether a name only says what something is like, or goes to: "it resembles Riga"."""
    words = [token.word for token in left]
    if not words:
        return False
    is_verb = len(words) > 1 and not left[1].classes and words[1].endswith("s")
    is_relation = words[0] in _PRONOUNS and is_verb and words[-1] not in ("in", "at")
    is_fragment = len(words) == 1 and words[0] in _LONE_LINKS and not right
    is_preposition = words[-1] == "a" and not is_english  # "non a Riga, ma a Porto"
    is_second = (words[-1] in _SECOND and not is_preposition) or (
        words[-1] == "the" and bool(right) and right[0].word == "of"
    )
    return is_relation or is_fragment or is_second


def is_choice_of_others(right: Sequence[TextToken]) -> bool:
    """Whether a predicate says who else chooses a name: "is what most of the class ticked"."""
    if len(right) < 3 or "copula" not in right[0].classes or right[1].word not in ("what", "whom", "who"):  # noqa: PLR2004  (a verb, a pronoun, a subject)
        return False
    subject = right[2]
    is_own = bool({*subject.word.split()} & _OWN_SUBJECTS) or "first_person" in subject.classes
    is_speech = bool(classes_in(right[2:]) & {"choosing", "report", "epistemic"})
    return not is_own and is_speech


def is_superlative(right: Sequence[TextToken]) -> bool:
    """Whether a predicate puts a name in front of all others: "is the oldest", "was founded first"."""
    if not right or "copula" not in right[0].classes or classes_in(right) & _WRONGNESS:
        return False
    return any(
        token.word in _SUPERLATIVE
        or (len(token.word) > 5 and token.word.endswith("est") and token.word not in _NOT_SUPERLATIVE)  # noqa: PLR2004  ("best" and "rest" are listed)
        for token in right[1:4]
    )


def may_be_right_too(behind: Sequence[TextToken]) -> bool:
    """Whether a predicate says that a name may be right as well: "would also fit"."""
    words = {word for token in behind for word in token.word.split()}
    is_possible = bool(behind) and bool({*behind[0].word.split()} & _POSSIBLE)
    return is_possible and bool(words & _EXTENT) and not classes_in(behind) & _WRONGNESS


def is_side(value: Value) -> bool:
    """Whether a clause begins with a name and tells the case for which it holds: "A in theory"."""
    tokens = value.clause.tokens
    if tokens[0] is not value.token or len(tokens) < 2 or len(value.clause.values) > 1:  # noqa: PLR2004  (a name and a word behind it)
        return False
    following = tokens[1]
    return following.word.partition(" ")[0] in _SIDE_WORDS and not classes_in(tokens[1:]) & {
        "confirm",
        "copula",
    }


def is_declined(clause: Clause) -> bool:
    """Whether a remark says that the author does not do what the text in front of it says: "but I won't"."""
    tokens, lead = clause.tokens, clause.lead
    words = [token.word for token in tokens]
    if lead is None or lead.word not in ("but", "yet", "only") or "first_person" not in tokens[0].classes:
        return False
    rest = words[1:] if len(words) > 1 else []
    return bool(rest) and rest[0] in _DECLINING and all(word in _DECLINED for word in rest[1:])


def restart_of(left: Sequence[TextToken]) -> int:
    """Return where a new clause begins behind "contrary to" and its object: "contrary to legend it is A"."""
    if "copula" not in left[-1].classes:
        return 0
    return next(
        (
            index
            for index, token in enumerate(left)
            if index and ("answer" in token.classes or token.word in _RESTARTING)
        ),
        0,
    )


def seems(right: Sequence[TextToken]) -> bool:
    """Whether a predicate says what an option seems to be: "sounds right"."""
    return bool(right) and right[0].word.startswith(_SEEMING) and not classes_in(right) & _WRONGNESS


def is_lone_denial(clause: Clause) -> bool:
    """Whether a clause is a negation whose object follows an aside: "and not, as some say, in Riga"."""
    return (
        not clause.values
        and len(clause.tokens) == 1
        and clause.tokens[0].word in ("not", "and not", "but not")
    )


def is_contrasted(sentence: Sentence) -> bool:
    """Whether a sentence is a name and a verb that denies for it what another was called: "Riga doesn't"."""
    tokens = sentence.tokens
    return (
        len(tokens) == 2  # noqa: PLR2004  (a name and its verb)
        and tokens[0].kind == "value"
        and (tokens[1].word.endswith("n't") or tokens[1].word in ("does", "did", "is", "was", "has"))
    )


def is_example(clause: Clause) -> bool:
    """Whether a remark calls what precedes it an example."""
    return " ".join(token.word for token in clause.tokens) in _EXAMPLES


def replaces(sentences: Sequence[Sentence], last: Value, *, is_definite: bool) -> bool:
    """Whether the last of some sentences replaces the name of the first one: "Riga. Hm. It's Porto."."""
    clause, final = last.clause, sentences[-1]
    has_values = [any(part.values for part in sentence.clauses) for sentence in sentences]
    if len(sentences) < 2 or any(has_values[1:-1]) or final.is_question:  # noqa: PLR2004  (the first and the last)
        return False
    openers = [
        token for part in final.clauses for token in (part.lead, *part.tokens[:2]) if token is not None
    ]
    if (
        any(token.word.partition(" ")[0] in _ADDING for token in openers)
        or classes_in(openers) & _LEAVING_OPEN
    ):
        return False
    position = final.clauses.index(clause)
    is_alone = clause.tokens == [last.token]
    behind = [token.word for part in final.clauses[position + 1 :] for token in part.tokens]
    if is_alone and " ".join(behind) in _POSTPOSED:
        return position == 0  # "Riga. Porto, I mean."
    is_headed = is_alone and position > 0 and clause.lead is not None and clause.lead.word == ":"
    is_stated = (is_alone and not position) or is_definite
    has_words = len(sentences) > 2 or position > 0  # noqa: PLR2004  (words between the two names)
    return not behind and has_words and (is_headed or is_stated)


def is_gapped(first: Value, second: Value) -> bool:
    """Whether two clauses alike name a case and a name each: "By area A, by population B"."""
    lead, left = second.clause.lead, second.clause.tokens[:-1]
    before = first.clause.tokens[:-1]
    if lead is None or lead.word not in (",", "and", ";") or not 0 < len(left) <= _MAX_GAPPED or not before:
        return False
    if second.clause.tokens[-1] is not second.token or first.clause.tokens[-1] is not first.token:
        return False
    is_same = left[-1].word == before[-1].word.rpartition(" ")[2]
    is_same = is_same or not (_is_link(left[-1]) or _is_link(before[-1]))
    has_verb = bool(classes_in(left) & _STATING) or any(
        token.word.endswith(("ed", "s")) or not token.word.isascii() for token in left
    )
    words = {token.word for token in left}
    return is_same and not has_verb and not words & _NOT_GAPPED and not all(map(_is_link, left))


def is_other_event(first: Value, second: Value) -> bool:
    """Whether two clauses tell two events at two places: "he was born in Riga and buried in Porto"."""
    lead, left = second.clause.lead, second.clause.tokens[:-1]
    before = first.clause.tokens[: first.clause.tokens.index(first.token)]
    if lead is None or lead.word != "and" or second.clause.tokens[-1] is not second.token:
        return False
    if len(left) < 2 or len(before) < 2 or first.is_framed or second.is_framed:  # noqa: PLR2004  (a verb and a preposition)
        return False
    verbs = left[-2].word, before[-2].word
    are_places = left[-1].word in _AT and before[-1].word.rpartition(" ")[2] in _AT
    return are_places and verbs[0] != verbs[1] and verbs[0].endswith(_PAST)


def _is_link(token: TextToken) -> bool:
    return "preposition" in token.classes or token.word in ("in", "to", "at", "of")


def is_too_much(right: Sequence[TextToken]) -> bool:
    """Whether a predicate says "too" of a name: "is far too obvious"."""
    if not right or not right[0].classes & {"copula", "linking"} or "negative" in classes_in(right):
        return False
    return any(token.word == "too" and index + 2 < len(right) for index, token in enumerate(right[1:4]))


def is_only_done_there(left: Sequence[TextToken]) -> bool:
    """Whether a name is a place where something less was done: "he only studied in", "after leaving"."""
    if not left:
        return False
    is_fronted = left[0].word in _TEMPORAL and len(left) > 1 and left[1].word.endswith("ing")
    is_fronted = is_fronted and all(token.kind == "word" for token in left)  # "after leaving Riga he is in"
    is_restricted = any(
        token.word in _RESTRICTING and left[index + 1].word.endswith("ed")
        for index, token in enumerate(left[:-1])
    )
    return is_fronted or (is_restricted and _is_link(left[-1]))


def is_at_distance(left: Sequence[TextToken]) -> bool:
    """Whether a name is only what something is away from: "a long way from Riga"."""
    if len(left) < 2 or left[-1].word.rpartition(" ")[2] not in ("from", "off", "of"):  # noqa: PLR2004  (a noun and "from")
        return False
    return left[-2].word.rpartition(" ")[2] in _DISTANCES


def is_elsewhere(clause: Clause) -> bool:
    """Whether a remark says that what is asked for is at another place: "but died elsewhere"."""
    words = " ".join(token.word for token in clause.tokens)
    return any(word in words for word in ("elsewhere", "somewhere else", "another town", "another place"))


def is_part_of(left: Sequence[TextToken], before: Classes) -> bool:
    """Whether a name only describes something else: "the bishop of", "a town like", "south-east of"."""
    if not left or left[-1].word not in _PART_WORDS or before & {"copula", "answer", "first_person"}:
        return False
    return len(left) == 1 or left[-1].word == "like" or left[-2].word not in _APPOSED


def is_chosen_by_others(left: Sequence[TextToken]) -> bool:
    """Whether a clause says what another person chooses: "Beginners choose", "My classmate picked"."""
    at = next((index for index, token in enumerate(left) if "choosing" in token.classes), 0)
    subject = [token for token in left[:at] if token.kind == "word"]
    if not subject or len(left) - at > _MAX_CANCELLED:
        return False
    if left[at].word.startswith("favo") and any(token.word in _TEXTS for token in subject):
        return False  # "the passage favours A"
    return not classes_in(subject) & _SPEAKERS and subject[0].word not in _GENERAL


def words_in(sentence: Sentence) -> Iterator[TextToken]:
    """Yield the words and values of a sentence with the conjunctions between its clauses."""
    for clause in sentence.clauses:
        lead = clause.lead
        if lead is not None and lead.kind == "word" and lead not in clause.tokens[:1]:
            yield lead
        yield from clause.tokens


def is_rhetorical(sentence: Sentence) -> bool:
    """Whether a question only stresses what it says: "What else could it be but A?", "Who could doubt A?"."""
    words = [token for token in words_in(sentence) if token.kind == "word"]
    if " ".join(word.word for word in words) in _RHETORICAL_EXCEPTIONS:
        return True
    if len(words) < 3 or not any(word.word in _RHETORICAL for word in words[1:4]):  # noqa: PLR2004  (a pronoun, a verb, an object)
        return False
    rest = words[1:]
    opening = words[0].word
    if opening == "how":
        return "negative" in classes_in(rest)
    if opening == "who":
        return "reject" in classes_in(rest) and "negative" not in classes_in(rest)
    has_else = any(word.word.partition(" ")[0] in ELSE for word in rest)
    return opening in ("what", "which", "where") and has_else and any(w.word in EXCEPTION for w in rest)
