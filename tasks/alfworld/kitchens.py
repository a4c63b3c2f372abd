"""Invents scenes and tasks in ALFWorld's data format, and solves them with its planner.

`python -m ors_server_tasks.alfworld` runs it with the Python that has alfworld. It writes a folder that can
be served as ALFWORLD_DATA; equal seeds give equal folders. It imports only the standard library and alfworld,
whose domain, grammar, goal templates and tables of objects decide what can be done with what; which scenes
there are, and what is in them, is invented.
"""

# pyright: basic, reportMissingImports=false
from __future__ import annotations

import argparse
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

SPLITS = ("train", "valid_seen", "valid_unseen")
TASK_TYPES = (
    "pick_and_place_simple",
    "look_at_obj_in_light",
    "pick_clean_then_place_in_recep",
    "pick_heat_then_place_in_recep",
    "pick_cool_then_place_in_recep",
    "pick_two_obj_and_place",
)
APPLIANCES = {
    "pick_clean_then_place_in_recep": ("Cleanable", "SinkBasin"),
    "pick_heat_then_place_in_recep": ("Heatable", "Microwave"),
    "pick_cool_then_place_in_recep": ("Coolable", "Fridge"),
}
"""The table of objects, and the receptacle, of each task that changes its object."""
LAMP = "DeskLamp"
ROOMS = json.loads(Path(__file__).with_name("rooms.json").read_text(encoding="utf-8"))
"""Kinds of scenes: their numbers, how many receptacles of each type (least, most), and their objects."""
MAX_OBJECTS = 16
"""Objects of a scene, those that the task is about included."""
PLAN_LIMIT = 24
"""Maximum number of commands of a walkthrough."""


@dataclass(frozen=True)
class Tables:
    """What alfworld knows of its objects."""

    contains: Mapping[str, frozenset[str]]
    """What each type of receptacle can hold."""
    allows: Mapping[str, frozenset[str]]
    """Types of objects by what can be done with them: `Heatable`, `Sliceable` and so on."""
    openable: frozenset[str]
    goals: Mapping[str, Mapping[str, Any]]
    """PDDL and sentences of each type of task."""
    domain: str
    grammar: str


@dataclass(frozen=True)
class Thing:
    """A receptacle, or an object in one."""

    kind: str
    name: str
    """Its id in PDDL."""
    location: str
    """The location of a receptacle, the receptacle of an object."""


@dataclass(frozen=True)
class Kitchen:
    """A scene of any kind, and the task in it."""

    task_type: str
    target: str
    goal_place: str
    scene: int
    trial: str
    sentence: str
    receptacles: tuple[Thing, ...]
    objects: tuple[Thing, ...]

    @property
    def folder(self) -> str:
        """Its folder in a split, as alfworld's data names it."""
        middle = f"{self.target}-None-{self.goal_place}-{self.scene}"
        return f"{self.task_type}-{middle}/{self.trial}"


class Choices:
    """An endless stream of choices, the same on every machine and Python version for one seed."""

    def __init__(self, seed: str) -> None:
        """Start the stream."""
        self._seed = seed.encode()
        self._drawn = 0

    def below(self, bound: int) -> int:
        """Return an integer in [0, bound)."""
        self._drawn += 1
        digest = hashlib.sha256(b"%s#%d" % (self._seed, self._drawn)).digest()
        return int.from_bytes(digest[:8], "big") % bound

    def pick(self, options: Sequence[Any]) -> Any:
        """Return one of the options."""
        return options[self.below(len(options))]

    def shuffled(self, options: Sequence[Any]) -> list[Any]:
        """Return all the options in random order."""
        left = list(options)
        return [left.pop(self.below(len(left))) for _ in options]


def read_tables() -> Tables:
    """Return the tables of the installed alfworld, which must not make a folder in the user's home."""
    os.environ.setdefault("ALFWORLD_DATA", str(Path(__file__).parent))
    from alfworld.gen import constants, goal_library
    from alfworld.info import ALFRED_PDDL_PATH, ALFRED_TWL2_PATH

    return Tables(
        contains={kind: frozenset(held) for kind, held in constants.VAL_RECEPTACLE_OBJECTS.items()},
        allows={what: frozenset(kinds) for what, kinds in constants.VAL_ACTION_OBJECTS.items()},
        openable=frozenset(constants.OPENABLE_CLASS_SET),
        goals=goal_library.gdict,
        domain=Path(ALFRED_PDDL_PATH).read_text(encoding="utf-8"),
        grammar=Path(ALFRED_TWL2_PATH).read_text(encoding="utf-8"),
    )


def invent(tables: Tables, seed: str, split: str, index: int) -> Kitchen:
    """Return a game of a split; game `i` has the type `i % 6`."""
    choices = Choices(f"{seed}/{split}/{index}")
    task_type = TASK_TYPES[index % len(TASK_TYPES)]
    room = _room_of(task_type, choices)
    scene = _scene_of(room, split, choices)
    receptacles = _furnish(room, Choices(f"{seed}/scene/{scene}"))
    target, goal_place = _draw_task(tables, task_type, room, receptacles, choices)
    names = _Names(choices)
    wanted = 2 if task_type == "pick_two_obj_and_place" else 1
    objects = [
        _put(tables, target, receptacles, names, choices, forbidden={goal_place}) for _ in range(wanted)
    ]
    if task_type == "look_at_obj_in_light":
        desk = choices.pick(
            [receptacle for receptacle in receptacles if receptacle.kind in {"Desk", "SideTable", "Dresser"}]
        )
        objects.append(Thing(LAMP, names.new(LAMP), desk.name))
    for kind in choices.shuffled([kind for kind in ROOMS[room]["objects"] if kind != target])[:MAX_OBJECTS]:
        count = 1 + (choices.below(3) == 0)
        objects += [_put(tables, kind, receptacles, names, choices) for _ in range(count)]
    return Kitchen(
        task_type=task_type,
        target=target,
        goal_place=goal_place,
        scene=scene,
        trial=f"trial_T{SPLITS.index(split):08d}_{choices.below(10**6):06d}_{index:06d}",
        sentence=_sentence(tables, task_type, target, goal_place, choices),
        receptacles=tuple(receptacles),
        objects=tuple(objects[:MAX_OBJECTS]),
    )


def _room_of(task_type: str, choices: Choices) -> str:
    if task_type in APPLIANCES:
        return "kitchen"
    rooms = ["bedroom", "living_room", "kitchen"]
    return str(choices.pick(rooms[:2] if task_type == "look_at_obj_in_light" else rooms))


def _scene_of(room: str, split: str, choices: Choices) -> int:
    scenes = ROOMS[room]["scenes"]
    low, high = scenes["first"], scenes["last_seen"]  # which `train` and `valid_seen` share
    if split == "valid_unseen":
        low, high = high + 1, scenes["last"]
    return int(low + choices.below(high - low + 1))


def _furnish(room: str, choices: Choices) -> list[Thing]:
    names = _Names(choices)
    things: list[Thing] = []
    for kind, (least, greatest) in ROOMS[room]["receptacles"].items():
        for _ in range(least + choices.below(greatest - least + 1)):
            point = (choices.below(24) - 12, choices.below(24) - 12, choices.below(4), 30 * choices.below(3))
            location = f"loc|{'|'.join(str(part) for part in point)}"
            while any(
                thing.location == _mangled(location) for thing in things
            ):  # "go to" names what is at one place
                location = f"loc|{point[0]}|{choices.below(99)}|{point[2]}|{point[3]}"
            things.append(Thing(kind, names.new(kind), _mangled(location)))
    return things


def _draw_task(
    tables: Tables, task_type: str, room: str, receptacles: Sequence[Thing], choices: Choices
) -> tuple[str, str]:
    """Draw an object, and the receptacle or lamp to which it goes, that the tables allow."""
    places = sorted({receptacle.kind for receptacle in receptacles})
    kinds = [
        kind
        for kind in ROOMS[room]["objects"]
        if sum(_holds(tables, receptacle, kind) for receptacle in places) > 1
    ]
    if task_type == "look_at_obj_in_light":
        return str(choices.pick(kinds)), LAMP
    if task_type in APPLIANCES:
        what, appliance = APPLIANCES[task_type]
        kinds = [kind for kind in kinds if kind in tables.allows[what]]
        places = [receptacle for receptacle in places if receptacle != appliance]
    pairs = [
        (kind, receptacle) for kind in kinds for receptacle in places if _holds(tables, receptacle, kind)
    ]
    kind, spot = choices.pick(pairs)
    return kind, spot


def _holds(tables: Tables, receptacle: str, kind: str) -> bool:
    return kind in tables.contains.get(receptacle, frozenset())


def _put(
    tables: Tables,
    kind: str,
    receptacles: Sequence[Thing],
    names: _Names,
    choices: Choices,
    forbidden: frozenset[str] | set[str] = frozenset(),
) -> Thing:
    fitting = [
        receptacle
        for receptacle in receptacles
        if _holds(tables, receptacle.kind, kind) and receptacle.kind not in forbidden
    ]
    return Thing(kind, names.new(kind), choices.pick(fitting).name)


class _Names:
    """Ids of things: their type and a point, as the simulator behind ALFWorld gives them."""

    def __init__(self, choices: Choices) -> None:
        self._choices = choices
        self._used: set[str] = set()

    def new(self, kind: str) -> str:
        while True:
            point = [f"{(self._choices.below(800) - 400) / 100:+06.2f}" for _ in range(3)]
            base = kind.removesuffix("Basin")
            name = "|".join([base, *point, *([kind] if base != kind else [])])
            if name not in self._used:
                self._used.add(name)
                return _mangled(name)


def _mangled(name: str) -> str:
    for sign, word in (("|", "_bar_"), ("-", "_minus_"), ("+", "_plus_"), (".", "_dot_")):
        name = name.replace(sign, word)
    return name


def _sentence(tables: Tables, task_type: str, target: str, goal_place: str, choices: Choices) -> str:
    template = choices.pick(tables.goals[task_type]["templates"])
    words = {"obj": target, "recep": goal_place, "toggle": goal_place, "mrecep": ""}
    return str(template.format(**{key: word.lower() for key, word in words.items()}))


def problem_of(tables: Tables, kitchen: Kitchen) -> str:
    """Return a game's `initial_state.pddl`."""
    kinds = sorted({thing.kind for thing in kitchen.objects})
    places = sorted({receptacle.kind for receptacle in kitchen.receptacles})
    start = "loc_bar_0_bar_0_bar_0_bar_30"
    declared = [
        "agent1 - agent",
        *(f"{kind} - object" for kind in kinds),
        *(f"{kind}Type - otype" for kind in kinds),
        *(f"{receptacle}Type - rtype" for receptacle in places),
        *(f"{thing.name} - object" for thing in kitchen.objects),
        *(f"{receptacle.name} - receptacle" for receptacle in kitchen.receptacles),
        *(f"{receptacle.location} - location" for receptacle in kitchen.receptacles),
        f"{start} - location",
    ]
    at = {receptacle.name: receptacle.location for receptacle in kitchen.receptacles}
    facts = ["(= (total-cost) 0)", f"(atLocation agent1 {start})"]
    for receptacle in kitchen.receptacles:
        facts += [
            f"(receptacleType {receptacle.name} {receptacle.kind}Type)",
            f"(receptacleAtLocation {receptacle.name} {receptacle.location})",
        ]
        if receptacle.kind in tables.openable:
            facts.append(f"(openable {receptacle.name})")
    for thing in kitchen.objects:
        facts += [
            f"(objectType {thing.name} {thing.kind}Type)",
            f"(inReceptacle {thing.name} {thing.location})",
        ]
        facts += [f"(objectAtLocation {thing.name} {at[thing.location]})"]
        facts += [
            f"({what.lower()} {thing.name})"
            for what in sorted(tables.allows)
            if thing.kind in tables.allows[what]
        ]
        if thing.kind != LAMP:
            facts.append(f"(pickupable {thing.name})")
    facts += [
        f"(canContain {receptacle}Type {kind}Type)"
        for receptacle in places
        for kind in kinds
        if _holds(tables, receptacle, kind)
    ]
    goal = tables.goals[kitchen.task_type]["pddl"].format(
        obj=kitchen.target, recep=kitchen.goal_place, toggle=kitchen.goal_place
    )
    goal = " ".join(goal.replace("#", "-").split())
    lines = "\n        "
    return (
        f"(define (problem plan_{kitchen.trial})\n    (:domain alfred)\n    (:objects\n        "
        f"{lines.join(declared)}\n    )\n    (:init\n        {lines.join(facts)}\n    )\n    {goal}\n"
    )


def trajectory_of(kitchen: Kitchen) -> dict[str, Any]:
    """Return the part of a game's `traj_data.json` that ALFWorld's text games read."""
    is_lamp = kitchen.goal_place == LAMP
    return {
        "task_id": kitchen.trial,
        "task_type": kitchen.task_type,
        "pddl_params": {
            "object_target": kitchen.target,
            "parent_target": "" if is_lamp else kitchen.goal_place,
            "mrecep_target": "",
            "toggle_target": LAMP if is_lamp else "",
            "object_sliced": False,
        },
        "turk_annotations": {"anns": [{"task_desc": kitchen.sentence, "high_descs": []}]},
        "scene": {"floor_plan": f"FloorPlan{kitchen.scene}", "scene_num": kitchen.scene},
    }


class Planner:
    """Fast Downward behind TextWorld's environment, one for all games."""

    def __init__(self) -> None:
        """Load the library."""
        import fast_downward
        import textworld
        from alfworld.agents.environment.alfred_tw_env import AlfredDemangler
        from textworld.envs import PddlEnv

        fast_downward.pddl2sas = lru_cache(2)(fast_downward.pddl2sas)  # loading and resetting both translate
        infos = textworld.EnvInfos(admissible_commands=True, won=True, policy_commands=True)
        self._env = AlfredDemangler(PddlEnv(infos), shuffle=False)

    def solve(self, game: Mapping[str, Any]) -> list[str] | None:
        """Return commands that win when they are played, or `None`."""
        self._env.load(dict(game))
        plan = [str(command) for command in self._env.reset()["policy_commands"]]
        done = False
        for command in plan:
            _, _, done = self._env.step(command)
        return plan if done and len(plan) <= PLAN_LIMIT else None


def make_game(tables: Tables, kitchen: Kitchen, planner: Planner) -> dict[str, Any]:
    """Return a game's `game.tw-pddl`."""
    game: dict[str, Any] = {
        "pddl_domain": tables.domain,
        "grammar": tables.grammar.replace("UNKNOWN GOAL", kitchen.sentence),
        "pddl_problem": problem_of(tables, kitchen),
    }
    walkthrough = planner.solve(game)
    return {**game, "solvable": walkthrough is not None, "walkthrough": walkthrough}


def write_folder(folder: Path, seed: str, sizes: Sequence[int]) -> None:
    """Write games of every split in the layout of ALFWORLD_DATA.

    Raises:
        RuntimeError: The planner cannot solve a game.
    """
    tables, planner = read_tables(), Planner()
    (folder / "logic").mkdir(parents=True, exist_ok=True)
    (folder / "logic/alfred.pddl").write_text(tables.domain, encoding="utf-8")
    (folder / "logic/alfred.twl2").write_text(tables.grammar, encoding="utf-8")
    for split, size in zip(SPLITS, sizes, strict=True):
        for index in range(size):
            kitchen = invent(tables, seed, split, index)
            game = make_game(tables, kitchen, planner)
            if not game["solvable"]:
                raise RuntimeError(
                    f"the planner does not solve game {index} of {split} with the seed {seed!r}"
                )
            game_folder = folder / "json_2.1.1" / split / kitchen.folder
            game_folder.mkdir(parents=True, exist_ok=True)
            (game_folder / "traj_data.json").write_text(json.dumps(trajectory_of(kitchen)), encoding="utf-8")
            (game_folder / "initial_state.pddl").write_text(game["pddl_problem"], encoding="utf-8")
            (game_folder / "game.tw-pddl").write_text(json.dumps(game), encoding="utf-8")


def main() -> None:
    """Write the folder that the command line names."""
    parser = argparse.ArgumentParser(description="Invent games in the layout of ALFWORLD_DATA.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", default="kitchens-1")
    parser.add_argument(
        "--games", type=int, nargs=3, default=(24, 12, 12), metavar=("TRAIN", "SEEN", "UNSEEN")
    )
    options = parser.parse_args()
    write_folder(options.folder, options.seed, options.games)
    print(f"{options.folder}: {sum(options.games)} games")  # noqa: T201  (the command's output)


if __name__ == "__main__":
    main()
