"""The transcripts of a report, each folded; all text is escaped."""

from collections.abc import Sequence

from ors_server.evaluation.attempt_transcripts import MAX_STEPS, Transcript, TranscriptStep
from ors_server.evaluation.number_format import count_of, number
from ors_server.evaluation.report.markup import Markup, element
from ors_server.evaluation.runs import Attempt

ANCHOR = "transcript:"
"""Beginning of a transcript's id."""
NONE = (
    "No transcripts: the record that was read does not have the episodes of these attempts. `--store` names "
    "another record; `ors-server episodes show EPISODE --url URL` prints an episode of a server."
)


def name_of(attempt: Attempt) -> str:
    """Return the id of an attempt's transcript."""
    return f"{ANCHOR}{attempt.run_id}/{attempt.split}/{attempt.index}/{attempt.attempt}"


def render_transcripts(transcripts: Sequence[Transcript], total: int) -> Markup:
    """Return the transcripts in order; `total` is the number of all attempts."""
    if not transcripts:
        return element("p", NONE.replace("`", ""), class_="soft")
    note = (
        f"{len(transcripts):,} of {count_of(total, 'attempt')}: those that failed first, then the lowest "
        f"returns. Each has at most {MAX_STEPS} steps; ors-server episodes show EPISODE shows all."
    )
    return element(
        "div", element("p", note, class_="soft"), *map(_transcript, transcripts), class_="transcripts"
    )


def _transcript(transcript: Transcript) -> Markup:
    attempt = transcript.attempt
    outcome = attempt.error or f"return {number(attempt.episode_return)}, {attempt.stop_reason}"
    more = (
        [element("p", f"{count_of(transcript.left_out, 'more step')} not shown.", class_="soft")]
        if transcript.left_out
        else []
    )
    return element(
        "details",
        element("summary", f"{attempt.split}/{attempt.index}, attempt {attempt.attempt}: {outcome}"),
        element("h4", "Prompt", id=name_of(attempt)),
        preformatted(transcript.prompt),
        *(part for step in transcript.steps for part in _step(step)),
        *more,
        class_="card",
    )


def _step(step: TranscriptStep) -> tuple[Markup, ...]:
    heading = element("h4", f"{step.number}. {step.tool} · {step.verdict}")
    return heading, preformatted(step.arguments), preformatted(step.answer)


def preformatted(text: str) -> Markup:
    """Return a text as it is written, but for its control characters."""
    return element("pre", visible(text) or "-", dir="ltr", tabindex="0")


def visible(text: str) -> str:
    """Return a text with bidirectional control characters escaped, and without other control characters."""
    return "".join(
        f"\\u{ord(sign):04x}" if sign in _TURNING else sign for sign in text if sign >= " " or sign in "\n\t"
    )


_TURNING = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
