"""Tells a condition of an answer ("if n is even") from the way of the work ("if we add them"). Pure."""

from itertools import pairwise
from typing import Final

from ors_server.rewards.reading.polarity import words_of
from ors_server.rewards.reading.sentences import Clause, classes_in

_FINDING: Final = words_of("see find get notice obtain")
_GIVEN: Final = words_of("given stated described prescribed specified")
_HOLDING: Final = words_of("it they is are does do was true certain so given the case true we know indeed")
_STANDING: Final = frozenset({"is", "does", "it is", "it does", "they are", "are", "so"})
_MAX_ASIDE: Final = 6
"""Words of an aside that grants a condition: "and the caption says it is"."""
TEMPORAL: Final = words_of("when whenever once until wherever")
_SUPPOSING: Final = (
    "assum",
    "suppos",
    "imagin",
    "pretend",
    "presum",
    "hypothe",
    "postulat",
    "grant",
    "provid",
    "say",
)
_MIN_INVERTED: Final = 3
"""Words of a clause that begins with its verb."""
_CONTRARY: Final = frozenset(
    {"knew", "could", "were", "had", "might", "must", "ever", "forced", "pressed", "bet"}
)
MENDED: Final = words_of("repaired fixed corrected mended removed resolved rectified amended undone")
_USUAL: Final = words_of("usual standard ordinary customary conventional normal")
_WAYS: Final = frozenset({"with", "by", "when", "if", "using", "from"})
ORDERS: Final = frozenset({"<", ">", "≤", "≥", "\\le", "\\leq", "\\ge", "\\geq", "\\lt", "\\gt"})
INVERTED: Final = frozenset({"should", "were", "had"})
SOURCES: Final = frozenset(
    {"question", "problem", "exercise", "prompt", "task", "statement", "text", "page", "book", "puzzle"}
) | words_of("table data figure passage premise key map chart graph report source translation transcription")


def is_mistaken_way(clause: Clause) -> bool:
    """Whether a clause says how one goes wrong: "using the wrong formula, one gets 42"."""
    if clause.values or not clause.tokens:
        return False
    first = clause.tokens[0]
    if first.word == "having" or any(token.word in MENDED for token in clause.tokens):
        return False  # "having rejected the false root, we keep 42"
    is_way = (
        first.word.endswith("ing")
        or first.word in _WAYS
        or (clause.lead is not None and clause.lead.word in _WAYS)
    )
    is_rejected = bool(first.classes & {"reject", "leave"}) and first.word not in _WAYS
    is_wrong = bool(clause.classes() & {"reject", "fault", "leave"}) or any(
        token.word.startswith(("the wrong ", "a wrong ")) for token in clause.tokens
    )
    return is_way and not is_rejected and is_wrong


def is_condition(clause: Clause) -> bool:
    """Whether a clause begins with "if" or the like: "when n is even", "had we counted zero"."""
    opening = [token for token in (clause.lead, *clause.tokens[:1]) if token is not None]
    if is_modest(clause) or is_of_sound_source(clause):
        return False
    supposing = [token.word for token in opening if "suppose" in token.classes and token.word != "even if"]
    if any(not word.partition(" ")[0].endswith("ing") or word.startswith(_SUPPOSING) for word in supposing):
        return True
    classes = clause.classes()
    if any(token.word in TEMPORAL for token in opening):
        is_property = bool(classes & {"condition", "negative"}) or any(
            t.word in ORDERS for t in clause.tokens
        )
        is_open = any(token.word == "whether" for token in clause.tokens)
        return is_open or (is_property and "first_person" not in classes)
    is_led = clause.lead is not None and clause.lead.word not in "(["
    if is_led or clause.values or len(clause.tokens) < _MIN_INVERTED:
        return False
    return clause.tokens[0].word in INVERTED and clause.tokens[1].kind == "word"


def is_modest(clause: Clause) -> bool:
    """Whether a condition only grants that the author may err: "unless I made a slip"."""
    words = [token for token in (clause.lead, *clause.tokens) if token is not None]
    classes = classes_in(words)
    opener = words[0].word
    errs = bool(classes & {"reject", "fault", "retract", "erring"})
    if opener == "unless" and errs:
        return True
    if opener in ("assuming", "with", "under") and any(word.word in _USUAL for word in words):
        return True  # "assuming the usual meaning of this"
    if opener not in ("if", "provided", "assuming") or "first_person" not in classes:
        return False
    denies = "negative" in classes or "harmless" in classes
    return (errs and denies) or bool(classes & {"approval"})


def is_of_sound_source(clause: Clause) -> bool:
    """Whether a condition only grants that the question is right: "unless it is flawed"."""
    opening = {token.word for token in (clause.lead, *clause.tokens[:1]) if token is not None}
    classes = clause.classes()
    if not any(token.word in SOURCES or token.word in _GIVEN for token in clause.tokens):
        return False
    if "unless" in opening:
        return bool(classes & {"reject", "fault"})
    is_contrary = any(token.word in _CONTRARY for token in clause.tokens)
    if any(token.word in _GIVEN for token in clause.tokens[1:]) and not is_contrary:
        return not classes & {"reject", "fault", "negative", "would"}  # "if both walk at the given speed"
    return "confirm" in classes and not is_contrary and not classes & {"reject", "fault", "negative", "would"}


def is_granted(clause: Clause) -> bool:
    """Whether an aside says that the condition in front of it holds: "which nobody doubts", "as it does"."""
    lead = "" if clause.lead is None else clause.lead.word
    tokens = [token for token in clause.tokens if token is not clause.lead]
    if lead == "," and tokens and tokens[0].word == "and":
        lead, tokens = "and", tokens[1:]
    if lead not in ("which", "as", "and") or not tokens or clause.values or len(tokens) > _MAX_ASIDE:
        return False
    words = {word for token in tokens for word in token.word.split()} - {lead}
    is_short = bool(words) and words <= _HOLDING
    is_short = is_short or (lead == "and" and "report" in classes_in(tokens) and tokens[-1].word in _STANDING)
    return is_short or (lead == "which" and "harmless" in tokens[-1].classes)


def is_own_work(clause: Clause) -> bool:
    """Whether an if-clause only says how the author works: "if we add them"."""
    if any(
        token.word in _CONTRARY or token.classes & {"reject", "leave", "negative", "fault"}
        for token in clause.tokens
    ):
        return False
    if any(
        token.word == "you'll" and following.word in _FINDING for token, following in pairwise(clause.tokens)
    ):
        return True  # "if you add them up you'll see that it is 42"
    if clause.values and any(token.word == "you" for token in clause.tokens[:3]):
        return False  # "if you got 42, you forgot a term"
    return any("first_person" in token.classes or token.word in ("you", "one") for token in clause.tokens[:3])
