"""Rules about rewards: paid by a failure, paid again and again, dependent on luck."""

import ast
from collections.abc import Iterator

from ors_server.audit.static_rules.data_flow import Label
from ors_server.audit.static_rules.finding import SourceFinding, finding_at
from ors_server.audit.static_rules.parsed_class import SourceFunction, is_own, last_name
from ors_server.audit.static_rules.reward_flow import RewardFlow, number_of

_FAILURES = frozenset(
    {"Exception", "BaseException", "ValueError", "TypeError", "SyntaxError", "ArithmeticError"}
    | {"ZeroDivisionError", "OverflowError", "RuntimeError", "RecursionError", "MemoryError", "TimeoutError"}
    | {
        "JSONDecodeError",
        "UnicodeDecodeError",
        "ConnectionError",
        "HTTPError",
        "RequestException",
        "APIError",
    }
    | {"TimeoutExpired", "InvalidOperation", "SympifyError", "ParseError"}
)
"""Exceptions that mean that a judge failed. A missing file or key is left out: the task may ask for it."""
_GLOBAL_RANDOM = frozenset(
    {"random", "randint", "randrange", "choice", "choices", "shuffle", "sample", "uniform", "gauss"}
    | {
        "normalvariate",
        "betavariate",
        "expovariate",
        "getrandbits",
        "triangular",
        "randbytes",
        "rand",
        "randn",
    }
    | {"permutation", "normal", "integers"}
)
_LUCK = frozenset(
    {
        "time.time",
        "time.time_ns",
        "time.monotonic",
        "time.perf_counter",
        "uuid.uuid4",
        "uuid.uuid1",
        "os.urandom",
    }
    | {"datetime.datetime.now", "datetime.datetime.utcnow", "datetime.datetime.today", "datetime.date.today"}
    | {"secrets.randbelow", "secrets.choice", "secrets.token_hex", "secrets.randbits", "secrets.token_bytes"}
    | {"secrets.token_urlsafe"}
)


def paid_failure(rewards: RewardFlow) -> Iterator[SourceFinding]:
    """Find handlers of exceptions that give a positive reward (H11)."""
    for function in rewards.all:
        for node in function.nodes():
            if not isinstance(node, ast.ExceptHandler):
                continue
            # A bare `except`, which names nothing, catches failures too.
            kinds = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type] if node.type else []
            if not all(ast.unparse(kind).rpartition(".")[2] in _FAILURES for kind in kinds):
                continue
            for reward in rewards.reward_expressions(function, node.body):
                value = number_of(rewards.flow, reward)
                if value is not None and value > 0:
                    message = f"when the judge raises an error, the reward is {value:g}"
                    yield finding_at(reward, ("H11", "paid_failure"), message)


def unguarded_reward(rewards: RewardFlow) -> Iterator[SourceFinding]:
    """Find steps that pay a fixed reward each time, regardless of the episode's state (H5)."""
    for tool in rewards.flow.source.tools:
        for node in tool.nodes():
            value = _ongoing_reward(rewards, tool, node)
            if value is not None and isinstance(node, ast.Call) and not _is_guarded(rewards, tool, node):
                message = f"each call of {tool.name} pays {value:g}, however often it was paid before"
                yield finding_at(node, ("H5", "unguarded_reward"), message)


def unseeded_luck(rewards: RewardFlow) -> Iterator[SourceFinding]:
    """Find randomness that the session's seed does not determine (H17)."""
    flow = rewards.flow
    # A file that seeds the global generator is deterministic as far as this rule can see.
    is_seeded = any(
        isinstance(node, ast.Call) and flow.source.dotted(node.func) in {"random.seed", "numpy.random.seed"}
        for node in ast.walk(flow.source.tree)
    )
    for function in flow.functions:
        for node in function.nodes():
            if isinstance(node, ast.Call) and not is_seeded and (name := _random_name(rewards, node)):
                message = f"{name} does not follow the session's seed; self.rng does"
                yield finding_at(node, ("H17", "unseeded_luck"), message)
            elif isinstance(node, ast.Call | ast.BinOp) and _uses_hash(rewards, node):
                message = "hash() of a text differs from process to process"
                yield finding_at(node, ("H17", "unseeded_luck"), message)
    for function in rewards.all:
        yield from _luck_in_reward(rewards, function)


def _ongoing_reward(rewards: RewardFlow, tool: SourceFunction, node: ast.AST) -> float | None:
    """Return the fixed positive reward of an output that does not end the episode."""
    if not isinstance(node, ast.Call):
        return None
    name = last_name(node)
    keywords = {keyword.arg: keyword.value for keyword in node.keywords}
    ends = keywords.get("finished")
    is_ongoing = name == "ongoing" or (
        name == "ToolOutput" and (ends is None or (isinstance(ends, ast.Constant) and not ends.value))
    )
    reward = keywords.get("reward")
    if not is_ongoing or reward is None:
        return None
    if isinstance(reward, ast.Name):
        values = rewards.flow.values(tool, reward.id)
        reward = values[0] if len(values) == 1 else reward
    value = number_of(rewards.flow, reward)
    return value if value is not None and value > 0 else None


def _is_guarded(rewards: RewardFlow, tool: SourceFunction, node: ast.Call) -> bool:
    """Return whether code before an output reads the episode's state, or may refuse the call."""
    for other in tool.nodes():
        # Only the code above: a check after the output does not guard it.
        if getattr(other, "lineno", node.lineno) > node.lineno:
            continue
        if isinstance(other, ast.If | ast.IfExp | ast.While | ast.Match):
            test = other.subject if isinstance(other, ast.Match) else other.test
            names = [part for part in ast.walk(test) if isinstance(part, ast.Name)]
            labels = rewards.flow.labels(tool, test).union(
                *(rewards.flow.labels(tool, name) for name in names)
            )
            # A test of the argument alone picks what is paid for, and lets it be paid again.
            if Label.ARGUMENT not in labels or labels & {Label.STATE, Label.GOLD} or any(map(is_own, names)):
                return True
        if isinstance(
            other, ast.Try | ast.For | ast.AsyncFor | ast.Assert | ast.Raise | ast.With | ast.AsyncWith
        ):
            return True
        if isinstance(other, ast.Call) and other is not node and _may_refuse(rewards, other):
            return True
    return False


def _may_refuse(rewards: RewardFlow, call: ast.Call) -> bool:
    """Return whether a call may raise an error, so that the step does not count."""
    target = call.func
    if not isinstance(target, ast.Attribute):
        called = rewards.flow.source.called(call)
        return called is not None
    is_state = any(isinstance(node, ast.Name) and is_own(node) for node in ast.walk(target.value))
    # A change of a container never refuses the call; any other method of the state may.
    return is_state and target.attr not in {"append", "add", "extend", "update", "discard", "clear"}


def _random_name(rewards: RewardFlow, call: ast.Call) -> str | None:
    name = rewards.flow.source.dotted(call.func) or ""
    module, _, last = name.rpartition(".")
    if module in {"random", "numpy.random"} and last in _GLOBAL_RANDOM:
        return name
    is_bare = not call.args and not call.keywords
    is_generator = name in {"random.Random", "numpy.random.default_rng", "random.SystemRandom"}
    return name if is_generator and (is_bare or name == "random.SystemRandom") else None


def _uses_hash(rewards: RewardFlow, node: ast.Call | ast.BinOp) -> bool:
    """Return whether `hash` of a text chooses something: as a remainder, or as a seed."""
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.Mod) and _is_hash(rewards, node.left)
    name = rewards.flow.source.dotted(node.func) or ""
    is_seed = name in {"random.Random", "random.seed", "numpy.random.default_rng", "numpy.random.seed"}
    return is_seed and any(_is_hash(rewards, argument) for argument in node.args)


def _is_hash(rewards: RewardFlow, node: ast.expr) -> bool:
    while isinstance(node, ast.Call) and rewards.flow.source.dotted(node.func) == "abs" and node.args:
        node = node.args[0]
    is_hash = isinstance(node, ast.Call) and rewards.flow.source.dotted(node.func) == "hash"
    return is_hash and not any(isinstance(argument, ast.Constant) for argument in node.args)  # type: ignore[attr-defined]


def _luck_in_reward(rewards: RewardFlow, function: SourceFunction) -> Iterator[SourceFinding]:
    """Find clocks, identifiers and the order of sets in what becomes a reward."""
    seen: set[int] = set()
    for part in (node for expression in rewards.parts[function] for node in ast.walk(expression)):
        if id(part) in seen or not isinstance(part, ast.expr):
            continue
        seen.add(id(part))
        name = rewards.flow.source.dotted(part.func) if isinstance(part, ast.Call) else None
        if name in _LUCK:
            yield finding_at(part, ("H17", "unseeded_luck"), f"the reward depends on {name}")
        elif _takes_from_set(rewards, part):
            message = "the order of a set of texts differs from process to process; sort it"
            yield finding_at(part, ("H17", "unseeded_luck"), message)


def _takes_from_set(rewards: RewardFlow, node: ast.expr) -> bool:
    """Return whether an expression takes an element by a set's order."""
    dotted = rewards.flow.source.dotted
    if (
        isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Call)
        and not isinstance(node.slice, ast.Slice)
    ):
        is_list = dotted(node.value.func) in {"list", "tuple"} and bool(node.value.args)
        return is_list and _is_set(rewards, node.value.args[0])
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Attribute):
        joined = node.func.attr == "join" and bool(node.args) and _is_set(rewards, node.args[0])
        return joined or (node.func.attr == "pop" and not node.args and _is_set(rewards, node.func.value))
    first = node.args[0] if dotted(node.func) == "next" and node.args else None
    is_iterator = isinstance(first, ast.Call) and dotted(first.func) == "iter" and bool(first.args)
    return is_iterator and _is_set(rewards, first.args[0])  # type: ignore[union-attr]  # mypy does not follow the check above


def _is_set(rewards: RewardFlow, node: ast.expr) -> bool:
    is_made = isinstance(node, ast.Call) and rewards.flow.source.dotted(node.func) in {"set", "frozenset"}
    return is_made or isinstance(node, ast.SetComp | ast.Set)
