"""The sixteen alarms: what each compares, and with which threshold.

W are the latest closed episodes of a run, B its first ones, P those before W. An alarm proves nothing: it
says what to look at, and states its formula, its value, its threshold and some episodes. Rules that compare W
with B or P wait until none of W's episodes is among those.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from math import inf, sqrt
from statistics import fmean, pstdev

from ors_server.alarms.episode_facts import EpisodeFacts

MAX_THRESHOLD = 100_000
"""The highest value of any threshold: a window's facts are in memory."""
MAX_EXAMPLES = 5
"""Maximum number of episodes that an alarm names."""


@dataclass(frozen=True, slots=True)
class AlarmThresholds:
    """Every number of the rules; shares are between 0 and 1."""

    window: int = 200
    """Episodes of W, of B and of P."""
    min_episodes: int = 50
    """Minimum episodes in W."""
    look_every: int = 20
    """Closed episodes between two looks."""
    group_size: int = 4
    """Minimum graded episodes per group, and attempts per task, for it to count."""
    groups: int = 8
    """Minimum groups, or tasks, for a rule that compares them."""
    equal_returns: float = 1e-6
    dead_groups: float = 0.5
    dead_groups_bad: float = 0.8
    dead_outcomes: float = 0.5
    variance: float = 0.2
    variance_bad: float = 0.05
    ceiling: float = 0.8
    dominance: float = 0.75
    dominance_bad: float = 0.9
    length: float = 3.0
    """Standard deviations of B's lengths, which count as at least half a step."""
    jump: float = 5.0
    """Standard errors."""
    same_answer: float = 0.2
    diversity: float = 0.5
    tool_failures: float = 0.1
    tool_calls: int = 20
    """Minimum calls of a tool in W for it to count."""
    infrastructure: float = 0.02
    ungraded: float = 0.05
    chance_episodes: int = 4
    """`infrastructure` and `ungraded` need more affected episodes than this: few are chance."""
    truncated: float = 0.2
    truncated_growth: float = 1.5
    growth: float = 2.0
    """Factor over B of the same answer and of tool failures."""
    lost_from: float = 0.9
    lost_to: float = 0.7
    lost_attempts: int = 8
    lost_tasks: float = 0.02
    """Share of the tasks; a single one is not enough."""
    learnable: float = 0.2
    learnable_from: float = 0.2
    learnable_to: float = 0.8
    stale_steps: int = 4
    stale: float = 0.05


@dataclass(slots=True)
class TaskHistory:
    """Outcomes of a task in the order in which its episodes ended."""

    best: float = 0.0
    """Highest solve rate over so many attempts in a row as `lost_attempts` says."""
    recent: list[bool] = field(default_factory=list[bool])
    """The latest of these outcomes."""


@dataclass(slots=True)
class RunWindow:
    """What the rules see of a run."""

    thresholds: AlarmThresholds
    recent: Sequence[EpisodeFacts]
    """W, oldest first."""
    baseline: Sequence[EpisodeFacts]
    """B, or a chosen run's; empty while W overlaps it."""
    previous: Sequence[EpisodeFacts]
    """P; empty while there are not as many episodes."""
    lags: Mapping[str, int]
    """By how many of the trainer's steps an episode of W was behind when it ended, by id."""
    tasks: Mapping[str, TaskHistory]
    success_at: float
    highest_return: float | None
    """The highest possible return, or else the highest that was seen; `None` if all returns are equal."""

    @property
    def graded(self) -> list[EpisodeFacts]:
        """The episodes of W with a return."""
        return [episode for episode in self.recent if episode.episode_return is not None]

    def groups(self) -> list[list[EpisodeFacts]]:
        """Return W's groups that are large enough."""
        return [
            group
            for group in _grouped(self.graded, lambda episode: episode.group).values()
            if len(group) >= self.thresholds.group_size
        ]

    def is_success(self, episode: EpisodeFacts) -> bool:
        """Return whether a graded episode solved its task."""
        return _return_of(episode) >= self.success_at


@dataclass(frozen=True, slots=True)
class AlarmReading:
    """One look of a rule at a run."""

    value: float
    threshold: float
    is_raised: bool
    is_bad: bool = False
    """Whether it is far beyond the threshold."""
    note: str = ""
    """What the value is made of, where one number does not say it."""
    episodes: tuple[str, ...] = ()
    """Ids of episodes to look at first."""


Rule = Callable[[RunWindow], AlarmReading | None]
"""Reads a window; `None` if there is too little to judge."""


@dataclass(frozen=True, slots=True)
class AlarmRule:
    """One alarm."""

    name: str
    title: str
    formula: str
    """What is compared, with the names of thresholds in braces."""
    read: Rule

    def formula_with(self, thresholds: AlarmThresholds) -> str:
        """Return the formula with the values of thresholds."""
        return self.formula.format_map(asdict(thresholds))


def _dead_groups(window: RunWindow) -> AlarmReading | None:
    limits, groups = window.thresholds, window.groups()
    if len(groups) < limits.groups:
        return None
    dead = [group for group in groups if _spread(group) <= limits.equal_returns]
    solved = sum(all(map(window.is_success, group)) for group in dead)
    share = len(dead) / len(groups)
    return AlarmReading(
        share,
        limits.dead_groups,
        share > limits.dead_groups,
        share > limits.dead_groups_bad,
        f"{solved} of {len(groups)} groups pass throughout, {len(dead) - solved} fail throughout",
        _examples(episode for group in dead for episode in group[:1]),
    )


def _dead_outcomes(window: RunWindow) -> AlarmReading | None:
    limits, groups = window.thresholds, window.groups()
    if len(groups) < limits.groups:
        return None
    shaped = [
        group
        for group in groups
        if _spread(group) > limits.equal_returns and len(set(map(window.is_success, group))) == 1
    ]
    share = len(shaped) / len(groups)
    examples = _examples(episode for group in shaped for episode in group[:1])
    return AlarmReading(share, limits.dead_outcomes, share > limits.dead_outcomes, episodes=examples)


def _variance(window: RunWindow) -> AlarmReading | None:
    limits = window.thresholds
    before = _returns(window.baseline)
    now = _returns(window.recent)
    if len(before) < limits.min_episodes or len(now) < limits.min_episodes:
        return None
    deviation = pstdev(before)
    if deviation == 0:
        return None
    ratio = pstdev(now) / deviation
    examples = _examples(reversed(window.graded))
    return AlarmReading(
        ratio, limits.variance, ratio < limits.variance, ratio < limits.variance_bad, episodes=examples
    )


def _ceiling(window: RunWindow) -> AlarmReading | None:
    limits, highest = window.thresholds, window.highest_return
    graded = window.graded
    if highest is None or len(graded) < limits.min_episodes:
        return None
    full = [episode for episode in graded if _return_of(episode) >= highest - limits.equal_returns]
    share = len(full) / len(graded)
    return AlarmReading(
        share, limits.ceiling, share > limits.ceiling, note=f"highest {highest:g}", episodes=_examples(full)
    )


def _dominance(window: RunWindow) -> AlarmReading | None:
    limits = window.thresholds
    names = {name for episode in window.recent for name in episode.components}
    means = {
        name: abs(fmean(episode.components.get(name, 0.0) for episode in window.recent)) for name in names
    }
    total = sum(means.values())
    if len(means) <= 1 or total == 0:
        return None
    name = max(means, key=lambda candidate: (means[candidate], candidate))
    share = means[name] / total
    # A reward that outweighs rare penalties is what every author wants; a penalty that outweighs it is not.
    is_penalty = name != "reward"
    examples = _examples(sorted(window.recent, key=lambda episode: -abs(episode.components.get(name, 0.0))))
    return AlarmReading(
        share,
        limits.dominance,
        is_penalty and share > limits.dominance,
        is_penalty and share > limits.dominance_bad,
        name,
        examples,
    )


def _length(window: RunWindow) -> AlarmReading | None:
    limits = window.thresholds
    if not window.baseline:
        return None
    before = [episode.steps for episode in window.baseline]
    deviation = max(pstdev(before), 0.5)
    now = fmean(episode.steps for episode in window.recent)
    usual = fmean(before)
    value = abs(now - usual) / deviation
    examples = _examples(sorted(window.recent, key=lambda episode: -abs(episode.steps - usual)))
    note = f"{usual:.3g} steps before, {now:.3g} now"
    return AlarmReading(value, limits.length, value > limits.length, note=note, episodes=examples)


def _jump(window: RunWindow) -> AlarmReading | None:
    limits = window.thresholds
    before, now = _returns(window.previous), _returns(window.recent)
    if min(len(before), len(now)) < limits.min_episodes:
        return None
    error = sqrt(pstdev(before) ** 2 / len(before) + pstdev(now) ** 2 / len(now))
    change = abs(fmean(now) - fmean(before))
    value = 0.0 if change == 0 else inf if error == 0 else change / error
    note = f"mean return {fmean(before):.3g} before, {fmean(now):.3g} now"
    examples = _examples(reversed(window.graded))
    return AlarmReading(value, limits.jump, value > limits.jump, note=note, episodes=examples)


def _same_answer(window: RunWindow) -> AlarmReading | None:
    limits = window.thresholds
    share, tasks, answer = _commonest_answer(window.recent)
    if tasks < limits.groups or not window.baseline:
        return None
    before, _, _ = _commonest_answer(window.baseline)
    threshold = max(limits.same_answer, limits.growth * before)
    examples = _examples(episode for episode in window.recent if episode.answer == answer)
    return AlarmReading(share, threshold, share > threshold, episodes=examples)


def _diversity(window: RunWindow) -> AlarmReading | None:
    limits, groups = window.thresholds, window.groups()
    if len(groups) < limits.groups:
        return None
    shares = [len({episode.trajectory for episode in group}) / len(group) for group in groups]
    value = fmean(shares)
    alike = min(zip(shares, groups, strict=True), key=lambda pair: pair[0])[1]
    return AlarmReading(value, limits.diversity, value < limits.diversity, episodes=_examples(alike))


def _tool_failures(window: RunWindow) -> AlarmReading | None:
    limits = window.thresholds
    rates, before = _failure_rates(window.recent, limits.tool_calls), _failure_rates(window.baseline, 1)
    worst: AlarmReading | None = None
    for tool, rate in sorted(rates.items()):
        threshold = max(limits.tool_failures, limits.growth * before.get(tool, 0.0))
        examples = _examples(episode for episode in window.recent if episode.failed_calls.get(tool))
        reading = AlarmReading(rate, threshold, rate > threshold, note=tool, episodes=examples)
        if worst is None or rate - threshold > worst.value - worst.threshold:
            worst = reading
    return worst


def _share_rule(has: Callable[[EpisodeFacts], bool], limit: Callable[[AlarmThresholds], float]) -> Rule:
    """Make the rule that a share of W's episodes is above a limit."""

    def read(window: RunWindow) -> AlarmReading:
        affected = [episode for episode in window.recent if has(episode)]
        share, threshold = len(affected) / len(window.recent), limit(window.thresholds)
        is_raised = share > threshold and len(affected) > window.thresholds.chance_episodes
        return AlarmReading(share, threshold, is_raised, episodes=_examples(affected))

    return read


def _truncated(window: RunWindow) -> AlarmReading | None:
    limits = window.thresholds
    truncated = [episode for episode in window.recent if episode.is_truncated]
    share = len(truncated) / len(window.recent)
    if not window.baseline:
        return None
    before = sum(episode.is_truncated for episode in window.baseline) / len(window.baseline)
    threshold = max(limits.truncated, limits.truncated_growth * before)
    return AlarmReading(share, threshold, share > threshold, episodes=_examples(truncated))


def _lost_tasks(window: RunWindow) -> AlarmReading | None:
    limits = window.thresholds
    if not window.tasks:
        return None
    lost = {
        task
        for task, history in window.tasks.items()
        if history.best >= limits.lost_from
        and len(history.recent) == limits.lost_attempts
        and wilson_upper(sum(history.recent), len(history.recent)) < limits.lost_to
    }
    threshold = max(1.0, limits.lost_tasks * len(window.tasks))
    examples = _examples(episode for episode in window.recent if episode.task in lost)
    return AlarmReading(
        len(lost), threshold, len(lost) > threshold, note=f"of {len(window.tasks)} tasks", episodes=examples
    )


def _learnable(window: RunWindow) -> AlarmReading | None:
    limits = window.thresholds
    tasks = [
        episodes
        for episodes in _grouped(window.graded, lambda episode: episode.task).values()
        if len(episodes) >= limits.group_size
    ]
    if len(tasks) < limits.groups:
        return None
    rates = [fmean(map(window.is_success, episodes)) for episodes in tasks]
    within = [limits.learnable_from <= rate <= limits.learnable_to for rate in rates]
    share = fmean(within)
    outside = [episodes[0] for episodes, is_within in zip(tasks, within, strict=True) if not is_within]
    return AlarmReading(share, limits.learnable, share < limits.learnable, episodes=_examples(outside))


def _stale(window: RunWindow) -> AlarmReading | None:
    limits = window.thresholds
    if not window.lags:
        return None
    stale = [
        episode for episode in window.recent if window.lags.get(episode.episode_id, 0) > limits.stale_steps
    ]
    share = len(stale) / len(window.lags)
    note = f"up to {max(window.lags.values())} steps behind"
    return AlarmReading(share, limits.stale, share > limits.stale, note=note, episodes=_examples(stale))


RULES: tuple[AlarmRule, ...] = (
    AlarmRule(
        "dead-groups",
        "Dead groups",
        "groups whose returns are all equal / groups in W > {dead_groups:g}",
        _dead_groups,
    ),
    AlarmRule(
        "dead-outcomes",
        "Shaping is the only signal",
        "groups with equal success and different returns / groups in W > {dead_outcomes:g}",
        _dead_outcomes,
    ),
    AlarmRule(
        "variance",
        "Returns lost their variance",
        "std(returns of W) / std(returns of B) < {variance:g}",
        _variance,
    ),
    AlarmRule(
        "ceiling",
        "Returns are at the ceiling",
        "episodes with the highest return / graded in W > {ceiling:g}",
        _ceiling,
    ),
    AlarmRule(
        "dominance",
        "A penalty dominates the reward",
        "max |mean component| / sum of |mean component| in W > {dominance:g}, and it is a penalty",
        _dominance,
    ),
    AlarmRule(
        "length",
        "Episodes changed their length",
        "|mean steps(W) - mean steps(B)| / std steps(B) > {length:g}",
        _length,
    ),
    AlarmRule("jump", "The mean return jumped", "|mean(W) - mean(P)| / standard error > {jump:g}", _jump),
    AlarmRule(
        "same-answer",
        "One answer for many tasks",
        "tasks with the commonest final arguments / tasks in W > {same_answer:g} and > {growth:g} times B",
        _same_answer,
    ),
    AlarmRule(
        "diversity",
        "Groups repeat one trajectory",
        "mean of distinct trajectories / group size in W < {diversity:g}",
        _diversity,
    ),
    AlarmRule(
        "tool-failures",
        "A tool fails often",
        "refused and failed calls / calls of a tool in W > {tool_failures:g} and > {growth:g} times B",
        _tool_failures,
    ),
    AlarmRule(
        "infrastructure",
        "Machinery or the author's code fails",
        "episodes with such a failure / episodes in W > {infrastructure:g}",
        _share_rule(lambda episode: episode.has_infrastructure_failure, lambda limits: limits.infrastructure),
    ),
    AlarmRule(
        "ungraded",
        "Episodes without a grade",
        "ungraded episodes / episodes in W > {ungraded:g}",
        _share_rule(lambda episode: episode.is_ungraded, lambda limits: limits.ungraded),
    ),
    AlarmRule(
        "cut",
        "Limits cut episodes off",
        "episodes ended by a limit / episodes in W > {truncated:g} and > {truncated_growth:g} times B",
        _truncated,
    ),
    AlarmRule(
        "lost-tasks",
        "Tasks that were solved are lost",
        "tasks with a solve rate of {lost_from:g} over {lost_attempts} attempts once, and now a Wilson upper "
        "limit < {lost_to:g}",
        _lost_tasks,
    ),
    AlarmRule(
        "learnable",
        "Few tasks are learnable",
        "tasks with a solve rate of {learnable_from:g} to {learnable_to:g} / tasks in W < {learnable:g}",
        _learnable,
    ),
    AlarmRule(
        "stale",
        "Episodes of an old policy",
        "episodes over {stale_steps} steps behind when they ended / labelled in W > {stale:g}",
        _stale,
    ),
)
"""Every alarm, in the order in which reports list them."""


def wilson_upper(successes: int, attempts: int, z: float = 1.959963984540054) -> float:
    """Return the upper limit of Wilson's 95 % interval of a rate; `attempts` is at least 1."""
    rate = successes / attempts
    centre = rate + z * z / (2 * attempts)
    margin = z * sqrt(rate * (1 - rate) / attempts + z * z / (4 * attempts * attempts))
    return (centre + margin) / (1 + z * z / attempts)


def read_thresholds(values: Mapping[str, float]) -> AlarmThresholds:
    """Return the thresholds with some of them changed.

    Raises:
        ValueError: If a name is unknown, or a number is out of its range.
    """
    types = {threshold.name: threshold.type for threshold in fields(AlarmThresholds)}
    changed: dict[str, float] = {}
    for name, value in values.items():
        if name not in types:
            raise ValueError(f"expected a threshold of {', '.join(types)}, got {name!r}")
        is_whole = types[name] in {int, "int"}
        if not 0 < value <= MAX_THRESHOLD or (is_whole and value != int(value)):
            kind = "a whole number" if is_whole else "a number"
            raise ValueError(f"expected {kind} above 0 and up to {MAX_THRESHOLD:,} for {name}, got {value!r}")
        changed[name] = int(value) if is_whole else value
    return AlarmThresholds(**changed)  # type: ignore[arg-type]  # the loop has checked names and types


def _grouped(
    episodes: Iterable[EpisodeFacts], key: Callable[[EpisodeFacts], str]
) -> dict[str, list[EpisodeFacts]]:
    groups: defaultdict[str, list[EpisodeFacts]] = defaultdict(list)
    for episode in episodes:
        groups[key(episode)].append(episode)
    return groups


def _return_of(episode: EpisodeFacts) -> float:
    if episode.episode_return is None:
        raise AssertionError("only graded episodes have a return")
    return episode.episode_return


def _returns(episodes: Iterable[EpisodeFacts]) -> list[float]:
    return [episode.episode_return for episode in episodes if episode.episode_return is not None]


def _spread(group: Sequence[EpisodeFacts]) -> float:
    returns = _returns(group)
    return max(returns) - min(returns)


def _examples(episodes: Iterable[EpisodeFacts]) -> tuple[str, ...]:
    """Return the first ids, each once."""
    ids = dict.fromkeys(episode.episode_id for episode in episodes)
    return tuple(ids)[:MAX_EXAMPLES]


def _commonest_answer(episodes: Sequence[EpisodeFacts]) -> tuple[float, int, str | None]:
    """Return the share of tasks with the commonest answer, the number of tasks, and the answer."""
    pairs = {(episode.task, episode.answer) for episode in episodes if episode.answer is not None}
    tasks = len({task for task, _ in pairs})
    if not tasks:
        return 0.0, 0, None
    answer, count = Counter(answer for _, answer in pairs).most_common(1)[0]
    return count / tasks, tasks, answer


def _failure_rates(episodes: Iterable[EpisodeFacts], min_calls: int) -> dict[str, float]:
    """Return the share of refused and failed calls of each tool with enough calls."""
    calls: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    for episode in episodes:
        calls.update(episode.calls)
        failed.update(episode.failed_calls)
    return {tool: failed[tool] / count for tool, count in calls.items() if count >= min_calls}
