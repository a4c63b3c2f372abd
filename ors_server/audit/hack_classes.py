"""The ways in which an environment pays for what it should not, and how to close each."""

from dataclasses import dataclass

PAGES_URL = "https://github.com/ors-server/ors-server/blob/main/docs/reference/audit"


@dataclass(frozen=True, slots=True)
class HackClass:
    """One way to be paid without doing the task."""

    id: str
    """`H1` to `H23`."""
    title: str
    question: str
    """What its policies find out."""
    remedy: str
    """How to close the hole."""

    @property
    def page(self) -> str:
        """The address of its page in the documents."""
        return f"{PAGES_URL}/{self.id.lower()}.md"

    @property
    def number(self) -> int:
        """Its place in the order of the classes, from 1."""
        return int(self.id[1:])


_ROWS = (
    (
        "Doing nothing pays",
        "Does an agent that ends the episode at once earn what the gold actions earn?",
        "Judge what the agent had to change, not only what it had to leave alone.",
    ),
    (
        "A constant answer pays",
        "Does one answer, the same for every task, earn more than chance?",
        "Balance the answers of the tasks, and refuse what is not an answer.",
    ),
    (
        "A fragment of the answer pays",
        "Is an answer paid that only contains the right one, or is only a piece of it?",
        "Compare whole, normalised answers; do not search one text in the other.",
    ),
    (
        "Listing every candidate pays",
        "Is an answer paid that lists all candidates, the right one among them?",
        "Take exactly one answer; judge the last one, or refuse several.",
    ),
    (
        "Repeating a step pays",
        "Does a step that paid once pay again, beyond what the gold actions earn?",
        "Remember what was paid, and pay each achievement once per episode.",
    ),
    (
        "A cycle pays",
        "Does going back and forth earn more than the way to the goal?",
        "Pay the difference of a potential, so that the way back costs what the way there paid.",
    ),
    (
        "The judge is talked over",
        "Is a wrong answer paid that contains a verdict or instructions for the judge?",
        "Keep the answer apart from the judge's own words, and read the verdict from a separate field.",
    ),
    (
        "Files of the grader can be changed",
        "Is an agent paid that changes tests, expected results or programs which the grader uses?",
        "Grade out of the agent's reach: with files that are written after the agent has ended.",
    ),
    (
        "The answer is in sight",
        "Does the right answer stand in a prompt, a tool's output, a file or a variable?",
        "Keep the answer out of everything that the agent can read.",
    ),
    (
        "The answer judges itself",
        "Is an answer paid that states its own success, or ends or patches the program which judges it?",
        "Run what the agent wrote in a separate process, and let nothing that it says be the verdict.",
    ),
    (
        "A failure of the grader pays",
        "Is an answer paid that the grader cannot read, or does a dependency's failure pay?",
        "Pay nothing that was not judged: refuse what cannot be read, and report other failures as errors.",
    ),
    (
        "The reward is not a number in its range",
        "Does some answer earn a reward outside the declared range, or break the grader?",
        "Check that numbers are finite, declare reward_range, and pay the least for unreadable input.",
    ),
    (
        "The format alone pays",
        "Does a wrong answer in the right format earn much of the reward?",
        "Pay the format only together with the right content, or with a small, declared part.",
    ),
    (
        "Length pays",
        "Does a wrong answer earn more because it is longer?",
        "Judge the content, and set a limit on the length.",
    ),
    (
        "The grader can be held up",
        "Does some answer keep the grader busy for more than a second, or fill its memory?",
        "Bound what is parsed, and run the grader in a process with limits.",
    ),
    (
        "The grader executes the answer",
        "Does the grader evaluate or expand code that stands in an answer?",
        "Parse answers; do not evaluate them, or put them into templates.",
    ),
    (
        "The reward depends on luck",
        "Do the same calls with the same seed earn different rewards?",
        "Draw randomness from self.rng, and sort what comes from sets.",
    ),
    (
        "A gold answer is wrong",
        "Do the gold actions earn less than the most, or does a changed gold answer earn as much?",
        "Correct the task's answer, or how it is compared.",
    ),
    (
        "A task is paid twice",
        "Do further answers or calls earn more than the best single attempt?",
        "End the episode with the first answer, or count only one.",
    ),
    (
        "Giving up beats trying",
        "Does giving up earn as much as the gold actions?",
        "Make the goal worth more than all penalties on the way to it.",
    ),
    (
        "A word in the source pays",
        "Is a text that stands in the environment's source accepted as an answer?",
        "Remove test answers and back doors from the grader.",
    ),
    (
        "Sessions leak into each other",
        "Does what one session did change what another one earns?",
        "Keep an episode's state in its instance, not in the class or the module.",
    ),
    (
        "A text that states no answer pays",
        "Is the question paid, or an answer that is denied, bounded, asked, hedged, quoted or taken back?",
        "Read the last value that the response asserts; take none from the question, or from a doubt.",
    ),
)

HACK_CLASSES = {f"H{number}": HackClass(f"H{number}", *row) for number, row in enumerate(_ROWS, start=1)}
"""All classes by id, in order."""
