"""Tells what a remark says of the value in front of it: that it is wrong, or taken back. Pure."""

import re
from collections.abc import Sequence
from typing import Final

from ors_server.rewards.reading.polarity import words_of
from ors_server.rewards.reading.sentences import MAX_NEAR_WORDS, Clause, Sentence, TextToken, classes_in

_SECOND_LOOK: Final = re.compile(
    r"(?:(?:but|and|oh|ah|no|well|though|although|hmm?) )*(?:wait|hmm?|hold (?:on|up)|hang on|oops|whoops"
    r"|argh|(?:looking|reading|thinking|going|coming|having \w{2,12})\b.{0,40}?\b(?:again|back|closely"
    r"|once more|over|twice|second time)"
    r"|re-?(?:reading|checking|counting|examining|considering|thinking|visiting|calculating)"
    r"|(?:on|upon|after|at) (?:an? |my |some |another )?(?:second|closer|further|reflection|inspection"
    r"|review|re-?\w{2,12}ing)\b|in (?:hindsight|retrospect)|come to think of it"
    r"|(?:i|we) (?:only |just )?(?:now (?:see|notice|reali[sz]e|remember|recall|understand|spot)"
    r"|(?:see|notice|reali[sz]e|remember|understand) now"
    r"|just (?:saw|noticed|reali[sz]ed|remembered|spotted)))\b"
)
"""Opens a sentence that looks again at what is in front of it."""
_OWN_FAULT: Final = re.compile(
    r"\b(?:i|we) (?:should have|ought to have|(?:was|were) (?:supposed|meant) to"
    r"|(?:forgot|failed|neglected) to"
    r"|(?:need to|have to|must|should|want to|had better) (?:re-?do|start (?:over|again)|try again"
    r"|re-?(?:compute|calculate|count|think|consider)))\b"
    r"(?! (?:mention|note|add|say|point|warn|clarify|explain))"
    r"|\b(?:i|we) (?:seem|appear) to have\b"
    r"|\b(?:i|we) must have (?:slipped|erred|mis\w+|made an?|forgotten|mixed|gone wrong|lost|dropped)\b"
    r"|\b(?:i|we) (?:dropped|lost|missed|flipped|swapped|misplaced) (?:a|an|the|one) (?:\w+ )?"
    r"(?:sign|term|factor|row|digit|zero|unit|case|number|bracket)\b"
    r"|\b(?:where|when|though|although|but) (?:i|we) (?:should|ought to|had to|needed to)\b"
    r"|\b(?:was|were|got|has been|have been|went) (?:left out|lost|forgotten|overlooked|missed|missing"
    r"|dropped|misread|miscounted|swapped|mixed up|double-counted|counted twice)\b"
    r"|\b(?:i|we|that|this|it) took (?:the|a|an) \w+ (?:\w+ )?for (?:the|a|an)\b"
    r"|\b(?:sign|term|row|line|factor|exponent|unit|digit|column|bracket|limit|step|base|side|condition)s?\b"
    r".{0,30}\bshould (?:be|have been|read) (?:a|an|the|in|minus|plus|negative|positive)\b"
)
"""Tells an error of the work in front of it."""
_FAREWELLS: Final = words_of("bye goodbye good-bye farewell adieu")
_LEAVING: Final = _FAREWELLS | words_of("good have let feel")
"""Words that open a sentence in which an author takes leave."""
_OBJECTING: Final = words_of("but however yet unfortunately sadly alas though still")
_ACCOUNTING: Final = words_of(
    "account accounts consider include take allow handle cover respect satisfy meet distinguish divide even "
    "integer"
)
_MISCOUNTING: Final = words_of(
    "twice ignores neglects overcounts undercounts forgets overlooks assumes omits"
)
_TURNING: Final = re.compile(r"(?i)\b(?:but|however|yet|unfortunately|sadly|alas|though|still)\b")
_TURN_CHARS: Final = 12
_TURNS: Final = words_of("actually hmm hm wait oh ah")
_DENYING: Final = re.compile(r"\b(?:no|not|nothing|never|none|without|\w+n't)\b")
_STANDING: Final = words_of(
    "fine same still indeed consistent agrees agree sure certain convinced stands holds works fits checks "
    "matches confirmed confirms confirm verified yes ok okay good right correct true"
)
"""Words by which a second look ends with the same answer."""
_FAILING: Final = frozenset({"reject", "fault", "refuse", "retract", "negative"})
_SECOND_SUBJECTS: Final = words_of(
    "first initial original other another common many some most mistake mistakes others error errors "
    "students people trap careful"
)
_DEMONSTRATIVES: Final = words_of(
    "everything all both above check test verification equation sum sides calculation calculations "
    "reasoning work "
    "argument method formula arithmetic proof derivation solution line lines whole computation it's that's"
)
_PASSING: Final = words_of("to from with by of on into")
_NOTING: Final = words_of("note notice observe remember recall remark beware please")
_THERE: Final = words_of("there there's there's something here")
_GENERAL: Final = words_of(
    "if easy often never always usually frequent frequently unless without avoid everybody let tell "
    "hope otherwise any no "
)
_VERDICTS: Final = words_of(
    "wrong false incorrect mistaken invalid untrue nonsense erroneous flawed faulty bogus rubbish "
    "garbage absurd nonsensical inaccurate void fallacious "
)
_ASIDE_SUBJECTS: Final = words_of(
    "converse inverse reverse contrary opposite generalisation generalization analogue counterpart rumour "
    "rumor myth hint"
)
"""What a remark next to an answer may call wrong."""
_TO_ABSURDITY: Final = words_of("otherwise suppose if indeed else were assume assuming because since")
_THIS: Final = words_of("it this that everything all")
_ENDORSING: Final = words_of(
    "agree hold holds work works fit fits satisfy satisfies check checks match matches add equality "
    "equal equation balance count stand "
    "trust believe rely sense valid sound tally follow"
)
_PARTS: Final = words_of("second third other others both all rest last")
TAKING: Final = words_of(
    "take takes took taken taking tear tore torn throw threw thrown cross crossed rub rubbed"
)
_SOLUTIONS: Final = words_of("solution root fit match zero option candidate possibility")
_AWAY: Final = words_of("back out up away off")
_PAPERS: Final = words_of("it that this page sheet paper draft line answer number value")
_COMPARATIVES: Final = words_of("smaller larger bigger lower higher greater lesser fewer earlier later other")
_MORE: Final = words_of("more less fewer others other else besides further")
_NONE_OF: Final = words_of("and no not one nothing a single than that or in with")
_WRITTEN: Final = words_of("written given stated expressed quoted reported counted")
_WITH: Final = words_of("with as in to out without")
_JOINING: Final = words_of(
    "but yet and though although however aber doch und mais pero mas ma maar ale lecz но ama fakat "
    "men y et e en i"
)


def is_exactness(tokens: Sequence[TextToken]) -> bool:
    """Whether a remark says that a value is exact: "no more, no less", "and not one more"."""
    words = {word for token in tokens for word in token.word.split()}
    is_only = tokens[0].word in ("no", "and no") and bool(words & _COMPARATIVES) and not words & _VERDICTS
    return is_only or (
        len(tokens) <= 2 * MAX_NEAR_WORDS and bool(words & _MORE) and words <= _MORE | _NONE_OF
    )


def is_tag_question(clause: Clause) -> bool:
    """Whether a remark only asks for agreement: "it's 42, isn't it"."""
    words = [word for token in clause.tokens for word in token.word.split()]
    is_short = len(words) == 2 and clause.lead is not None and clause.lead.word == ","  # noqa: PLR2004  (a verb and a pronoun)
    return is_short and words[0].endswith("n't") and words[1] in ("it", "they", "there", "he", "she")


def is_of_form(tokens: Sequence[TextToken]) -> bool:
    """Whether a remark tells how a value is written: "written with a comma", "given in metres"."""
    return len(tokens) > 1 and tokens[0].word in _WRITTEN and tokens[1].word in _WITH


def is_passed_on(clause: Clause) -> bool:
    """Whether a remark uses the value in front of it: "to which the tax must be added"."""
    words = [token.word for token in (clause.lead, *clause.tokens) if token is not None]
    return len(words) > MAX_NEAR_WORDS and words[0] in _PASSING and "which" in words[:MAX_NEAR_WORDS]


def takes_back_words(tokens: Sequence[TextToken]) -> bool:
    """Whether words take a value back: "I take back the 42", "I take the 42 back"."""
    if any(
        "retract" in token.classes and " " in token.word and "negative" not in token.classes
        for token in tokens
    ):
        return True
    taken = next((index for index, token in enumerate(tokens) if token.word in TAKING), None)
    if taken is None:
        return False
    behind = [token.word for token in tokens[taken + 1 : taken + 5]]
    is_away = bool(_AWAY.intersection(behind)) and bool(_PAPERS.intersection(behind))
    return "back" in behind or (is_away and "first_person" in classes_in(tokens[:taken]))


def disapproves(tokens: Sequence[TextToken], *, is_framed: bool) -> bool:
    """Whether a remark about a value says that it is wrong.

    A negation alone says so of a value that the text has not named as its answer, or with a word of approval
    ("is not right", "it isn't"): "The answer is 42, which is not a square" asserts 42.
    """
    classes = classes_in(tokens)
    if classes & {"reject", "fault"}:
        return True
    if "negative" not in classes:
        return False
    at = next(index for index, token in enumerate(tokens) if "negative" in token.classes)
    if is_no_noun(tokens):
        return False  # "42 dollars and no cents"
    rest = [token for token in tokens[at + 1 :] if not token.classes & {"pronoun", "copula", "negative"}]
    if any(token.word in ("only", "the only") for token in rest[:2]):
        return False  # "It is not the only way."
    is_partial = at == 0 and any(token.word in _PARTS for token in rest)  # "but not the second"
    is_property = bool(rest) and rest[0].word in ("a", "an")  # "It isn't a prime number."
    approving = {"answer"} if is_property else {"confirm", "answer"}
    return (
        is_partial
        or not is_framed
        or not rest
        or any(token.classes & approving or token.word in _SOLUTIONS for token in rest)
    )


def is_no_noun(tokens: Sequence[TextToken]) -> bool:
    """Whether the only negation is a "no" in front of an unknown noun, which it denies: "no harm done"."""
    denials = [index for index, token in enumerate(tokens) if "negative" in token.classes]
    if len(denials) != 1 or not tokens[denials[0]].word.endswith("no"):
        return False
    behind = tokens[denials[0] + 1 : denials[0] + 2]
    return bool(behind) and behind[0].kind == "word" and not behind[0].classes


def tells_own_error(tokens: Sequence[TextToken]) -> bool:
    """Whether a sentence tells an error of its author: "I forgot the sign."."""
    at = next((index for index, token in enumerate(tokens) if "erring" in token.classes), None)
    if at is None:
        return False
    before = classes_in(tokens[:at])
    words = {word for token in tokens for word in token.word.split()}
    is_mine = (
        "first_person" in before | tokens[at].classes
        or tokens[0].word in _THERE
        or (at == 0 and len(tokens) <= MAX_NEAR_WORDS)
        or (
            tokens[at].word.startswith("the wrong")
            and at <= MAX_NEAR_WORDS
            and "pronoun" in classes_in(tokens[:at])
        )
    )
    is_general = words & _SECOND_SUBJECTS - {"error", "errors", "mistake", "mistakes"} or words & _GENERAL
    return is_mine and not is_general and not before & {"negative", "harmless", "suppose", "correction"}


def reconsiders(words: Sequence[str]) -> bool:
    """Whether words behind an answer look again at it, or tell an error of the work that led to it."""
    if tells_fault(words):
        return True
    return _OWN_FAULT.search(" ".join(words)) is None and looks_again(words) and not endorses(words)


def tells_fault(words: Sequence[str]) -> bool:
    """Whether words tell an error of the work in front of them: "I dropped a minus sign"."""
    if not words:
        return False
    text = " ".join(words)
    fault = _OWN_FAULT.search(text)
    return fault is not None and _DENYING.search(text, 0, fault.start()) is None


def _objects(tokens: Sequence[TextToken]) -> bool:
    """Whether a sentence behind "but" objects to a value: "However, this doesn't include them"."""
    tokens = tokens[1:] if tokens[:1] and tokens[0].word in _OBJECTING else tokens
    if len(tokens) <= MAX_NEAR_WORDS or "pronoun" not in tokens[0].classes:
        return False
    words = {word for token in tokens for word in token.word.split()}
    is_denied = any("negative" in token.classes for token in tokens[1:3]) and bool(words & _ACCOUNTING)
    return (is_denied or bool(words & _MISCOUNTING)) and "harmless" not in classes_in(tokens)


def turns_against(sentence: Sentence, text: str) -> bool:
    """Whether a second look objects to a value: "Actually, that's the number of days, not of weeks"."""
    tokens = sentence.tokens
    if not tokens:
        return False
    around = text[max(0, tokens[0].start - _TURN_CHARS) : tokens[0].start + _TURN_CHARS]
    if _TURNING.search(around) is not None and _objects(tokens):
        return True
    is_led = len(tokens) > MAX_NEAR_WORDS and tokens[0].word in _TURNS and "pronoun" in tokens[1].classes
    is_contrast = any(clause.tokens[0].word == "not" for clause in sentence.clauses[1:])
    return is_led and is_contrast and not classes_in(tokens) & {"approval", "harmless"}


def is_offer(tokens: Sequence[TextToken]) -> bool:
    """Whether a sentence only offers help, or takes leave: "Let me know if anything is unclear.", "Bye!"."""
    if not tokens or tokens[0].word.partition(" ")[0] not in _LEAVING:
        return False
    words = [word for token in tokens[:3] for word in token.word.split()]
    is_farewell = len(tokens) == 1 and tokens[0].word in _FAREWELLS
    is_wish = words[:2] in (["good", "luck"], ["have", "a"])
    return is_farewell or is_wish or words[:3] in (["let", "me", "know"], ["feel", "free", "to"])


def looks_again(words: Sequence[str]) -> bool:
    """Whether words open a second look at what is in front of them: "on second reading"."""
    return _SECOND_LOOK.match(" ".join(words)) is not None


def endorses(words: Sequence[str]) -> bool:
    """Whether words behind an answer confirm it."""
    return not _STANDING.isdisjoint(words) and _DENYING.search(" ".join(words)) is None


def refutes(tokens: Sequence[TextToken]) -> bool:
    """Whether a sentence says that the work in front of it is wrong: "Everything above is nonsense."."""
    classes = classes_in(tokens)
    if not classes & _FAILING or tokens[0].word in _TO_ABSURDITY:
        return False
    at = next(index for index, token in enumerate(tokens) if token.classes & _FAILING)
    subject = tokens[:at]
    words = {word for token in tokens for word in token.word.split()}
    if words & _SECOND_SUBJECTS or "source" in classes or tokens[0].word in _NOTING:
        return False
    is_about = any(word in _DEMONSTRATIVES for token in subject for word in token.word.split()) or bool(
        classes_in(subject[: MAX_NEAR_WORDS + 1]) & {"pronoun", "answer"}
    )
    is_predicate = (
        bool(subject) and bool(subject[-1].classes & {"copula", "linking"}) and tokens[at].word in _VERDICTS
    )
    if is_predicate:
        return True
    behind = tokens[at + 1 :]
    verdict = tokens[at].classes & {"reject", "fault"}
    is_act = "first_person" in classes_in(subject) and "copula" not in classes_in(subject)
    if is_act and tokens[at].classes & {"reject", "retract"}:
        return any(token.word in _THIS for token in behind[: MAX_NEAR_WORDS + 1])  # "I hereby withdraw it."
    if any(token.word in ("only", "the only") for token in behind[:2]):
        return False  # "This is not the only way to see it."
    is_property = bool(behind) and behind[0].word in ("a", "an")
    endorsed = any(
        (token.classes & {"confirm", "approval"} and not is_property) or token.word in _ENDORSING | _SOLUTIONS
        for token in behind[:4]
    )
    return is_about and (bool(verdict) or ("negative" in tokens[at].classes and endorsed))


def tells_of_several(tokens: Sequence[TextToken]) -> bool:
    """Whether a sentence is about things of the task, or another direction of a statement.

    "They do not work at the same time.", "The converse is false."
    """
    words = [word for token in tokens[:MAX_NEAR_WORDS] for word in token.word.split()]
    is_of_others = tokens[0].word == "they" and len(tokens) > 2 * MAX_NEAR_WORDS + 1
    is_of_others = is_of_others and not classes_in(tokens) & {"reject", "fault"}
    return is_of_others or not _ASIDE_SUBJECTS.isdisjoint(words)


def is_disapproval(clause: Clause, *, is_framed: bool) -> bool:
    """Whether a remark says that the value in front of it is wrong."""
    if not disapproves(clause.tokens, is_framed=is_framed):
        return False
    first, lead = clause.tokens[0], "" if clause.lead is None else clause.lead.word
    is_about = "pronoun" in classes_in(clause.tokens[:MAX_NEAR_WORDS]) or lead == "which"
    is_about = is_about or first.word.startswith(("that's ", "it's ", "this is "))
    is_other = any(token.is_capital for token in clause.tokens[:MAX_NEAR_WORDS])
    is_bare = bool(first.classes & {"negative", "reject", "fault", "copula"})
    if first.word in ("the", "a", "an") and MAX_NEAR_WORDS <= len(clause.tokens) <= MAX_NEAR_WORDS + 1:
        is_bare = bool(clause.tokens[1].classes & {"reject", "fault"})  # "42, the wrong answer"
    is_joined = lead in _JOINING and bool(
        clause.classes() & {"reject", "fault"} or "negative" in clause.tokens[-1].classes  # "но на деле нет"
    )
    return is_about or is_other or is_bare or is_joined


def overcomes_doubt(sentence: Sentence) -> bool:
    """Whether a sentence ends with approval: "I doubted this at first, but it is right."."""
    last = sentence.clauses[-1] if len(sentence.clauses) > 1 else None
    if last is None or last.lead is None or last.lead.word not in ("but", "yet") or last.values:
        return False
    classes = last.classes()
    is_pronoun = "pronoun" in last.tokens[0].classes or last.tokens[0].word in ("but", "yet")
    return is_pronoun and "approval" in classes and not classes & {"negative", "reject", "fault", "would"}
