"""AgentFly's reward for one action on a screen, written as `click(start_box='(960,540)')`.

Source: AgentFly at 1256586, whose pages do not have it. The action is parsed by its own grammar and
never evaluated.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ors_server.rewards.answering import reads_answer
from ors_server.rewards.define import reward
from ors_server.rewards.qa import count_f1
from ors_server.rewards.result import RewardResult, RewardStatus
from ors_server.rewards.reward_errors import RewardFieldError
from ors_server.rewards.reward_trajectory import Trajectory, played_messages, read_trajectory
from ors_server.rewards.transcripts.turns import text_of

FOR_ACTION = 0.8
FOR_FORMAT = 0.2
"""Weights of the right action, and of any action that can be read (AgentFly at 1256586)."""
PART_WEIGHT = 0.5
"""Weight, within the action, of the right type and of the right parameters (the same)."""
MAX_DISTANCE = 0.05 * math.sqrt(2.0)
"""Greatest distance of a click from its target, in parts of the screen (the same)."""
MIN_WORDS_F1 = 0.5
"""Least F1 of the words of a right typed text (the same)."""
SCREEN = (1920, 1080)
"""Width and height in pixels for which actions are written (the same)."""
MAX_CHARACTERS = 20_000
"""Characters of a prediction that are read."""
NO_TEXT = "no input text"
"""What a task's text is if nothing has to be typed (the same)."""

_SAME = {
    **dict.fromkeys(("left_single", "left_double", "right_single"), "click"),
    **dict.fromkeys(("press", "keydown", "release", "keyup"), "hotkey"),
    "select": "drag",
}
_TEXT_OF = {
    "type": ("content",),
    "scroll": ("direction",),
    "hotkey": ("key", "hotkey"),
    "finished": ("content",),
}
_CALL = re.compile(r"\s*(\w+)\s*\(")
_ARGUMENT = re.compile(
    r"""\s*(?:(\w+)\s*=\s*)?(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|([^\s,'"()\[\]]+)|[(\[][^()\[\]]*[)\]])\s*(,|\))""",
    re.DOTALL,
)
"""`name='text',`; values without a name, and lists without quotes, are skipped."""
_POINT_TAG = re.compile(r"<point>(\d+)\s+(\d+)</point>")
_POINT_NAME = re.compile(r"\b(?:start_)?point(?==)")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t"}
_SIGNS = re.compile(r"[^\w\s]")


@dataclass(frozen=True, slots=True)
class ScreenAction:
    """One action."""

    kind: str
    """`click`, `type`, `scroll`, `hotkey`, `drag` or another name; all kinds of click are `click`."""
    arguments: Mapping[str, str]

    @property
    def text(self) -> str:
        """The text that is typed or pressed, or the direction of scrolling; empty for other kinds."""
        names = _TEXT_OF.get(self.kind, ())
        missing = "down" if self.kind == "scroll" else ""
        return next((self.arguments[name] for name in names if name in self.arguments), missing)


@reward(range=(0.0, 1.0))
@reads_answer("text")
def gui_reward(
    final_response: str | None = None,
    gt_action: str = "",
    gt_bbox: Sequence[float] | None = None,
    gt_input_text: str = "",
    prediction: str | None = None,
    trajectory: Trajectory | None = None,
) -> RewardResult:
    """Pays for the right action on a screen: 0.4 for its type, 0.4 for its parameters, 0.2 for its form.

    Reads: the text (`answer_from`), or the trajectory's last turn with text if the response is empty. Extras:
    `format`, `accuracy`, `f1`, `precision`, `recall`. A response without a readable action is
    `unparsed_answer` and 0; a task without any right action is `bad_gold`.

    Hazards: any readable action earns 0.2, and a task without a target or a text pays the parameters to every
    agent; only clicks, typing and scrolling have parameters that count. `f1`, `precision` and `recall`
    compare the words of the whole response with the task's data: figures to log, not to pay.

    Source: AgentFly at 1256586.

    Args:
        final_response: The response, with `Action:` and one action; `prediction` is AgentFly's name for it.
        gt_action: The right type: `click`, `type`, `scroll` or another name.
        gt_bbox: The target of a click: a point (x, y) or a box (x1, y1, x2, y2), each in [0, 1].
        gt_input_text: The text to type, or the direction to scroll.

    Raises:
        RewardFieldError: If there is no response.
    """
    response = final_response if prediction is None else prediction
    if response is None:
        raise RewardFieldError("gui_reward needs final_response (or prediction)")
    if not response.strip():
        # The last turn with a text: after a call, an agent may say nothing more.
        messages = () if trajectory is None else played_messages(read_trajectory(trajectory))
        turns = (text_of(message) for message in reversed(messages) if message.get("role") == "assistant")
        response = next((turn for turn in turns if turn), "")
    response = response[:MAX_CHARACTERS]
    text = "" if gt_input_text == NO_TEXT else gt_input_text
    target = [float(value) for value in gt_bbox or ()]
    if not (gt_action or target or text) or len(target) not in {0, 2, 4}:
        return RewardResult.without(
            RewardStatus.BAD_GOLD, "expected gt_action, gt_bbox (2 or 4 numbers) or gt_input_text"
        )
    expected = {"action": gt_action, "gt_bbox": list(gt_bbox or ()), "input_text": text}
    words = _compare_words(response, json.dumps(expected, default=float))
    action = read_action(response)
    if action is None:
        extras = {"format": 0.0, "accuracy": 0.0, **words}
        return RewardResult(
            0.0, RewardStatus.UNPARSED_ANSWER, extras, "the response has no readable action after Action:"
        )
    kind = _kind(gt_action)
    accuracy = PART_WEIGHT * (action.kind == kind) + PART_WEIGHT * _has_parameters(action, kind, target, text)
    return RewardResult(
        FOR_ACTION * accuracy + FOR_FORMAT, extras={"format": 1.0, "accuracy": accuracy, **words}
    )


def read_action(response: str) -> ScreenAction | None:
    """Read the first action after the last `Action:`; `None` without one, or if a box is not numbers."""
    _, marker, after = response.rpartition("Action:")
    if not marker:
        return None
    after = _POINT_NAME.sub("start_box", _POINT_TAG.sub(r"(\1,\2)", after))
    for part in after.split(")\n\n"):
        read = _read_call(part if part.rstrip().endswith(")") else f"{part})")
        if read is not None:
            boxes = [box for name, box in read.arguments.items() if "start_box" in name or "end_box" in name]
            return read if all(map(_numbers, boxes)) else None
    return None


def _read_call(text: str) -> ScreenAction | None:
    call = _CALL.match(text)
    if call is None:
        return None
    arguments: dict[str, str] = {}
    position = call.end()
    if text[position:].strip() == ")":
        return ScreenAction(_kind(call[1]), arguments)
    while (argument := _ARGUMENT.match(text, position)) is not None:
        name, single, double, bare, end = argument.groups()
        value = next(group for group in (single, double, bare, "") if group is not None)
        if name and value:
            arguments[name] = _ESCAPE.sub(lambda sign: _ESCAPED.get(sign[1], sign[1]), value).lstrip()
        position = argument.end()
        if end == ")":
            return ScreenAction(_kind(call[1]), arguments) if not text[position:].strip() else None
    return None


def _kind(name: str) -> str:
    return _SAME.get(name.lower(), name.lower())


def _numbers(box: str) -> list[float]:
    bare = box.replace("<|box_start|>", "").replace("<|box_end|>", "").strip("()[] ")
    try:
        numbers = [float(part) for part in bare.split(",")]
    except ValueError:
        return []
    return numbers if all(map(math.isfinite, numbers)) else []


def _has_parameters(action: ScreenAction, kind: str, target: Sequence[float], text: str) -> bool:
    """Return whether an action has the right parameters; a parameter that the task does not name is right."""
    if kind == "click":
        return not target or _is_near(action, target)
    if kind == "type":
        return not text or _compare_words(action.text, text)["f1"] >= MIN_WORDS_F1
    return kind == "scroll" and (not text or action.text.lower() == text.lower())


def _is_near(action: ScreenAction, target: Sequence[float]) -> bool:
    clicked = _numbers(action.arguments.get("start_box", ""))
    if len(clicked) not in {2, 4}:
        return False
    x, y = _middle(clicked)
    return math.dist((x / SCREEN[0], y / SCREEN[1]), _middle(target)) < MAX_DISTANCE


def _middle(box: Sequence[float]) -> tuple[float, float]:
    return (box[0] + box[-2]) / 2, (box[1] + box[-1]) / 2


def _compare_words(left: str, right: str) -> dict[str, float]:
    """Compare two texts as sets of words without punctuation; two empty texts are the same."""
    ours, right_words = (set(_SIGNS.sub("", text).lower().split()) for text in (left, right))
    if not ours and not right_words:
        return {"f1": 1.0, "precision": 1.0, "recall": 1.0}
    f1, precision, recall = count_f1(len(ours & right_words), len(ours), len(right_words))
    return {"f1": f1, "precision": precision, "recall": recall}
