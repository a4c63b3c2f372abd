"""Lists the games that can be played: those of a data folder, or the invented ones of the package.

It does not need alfworld.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast

DATA_VARIABLE = "ALFWORLD_DATA"
"""Environment variable with the data folder, as alfworld's own programs read it."""
SPLITS = ("train", "valid_seen", "valid_unseen")
TASK_TYPES = (
    "pick_and_place_simple",
    "look_at_obj_in_light",
    "pick_clean_then_place_in_recep",
    "pick_heat_then_place_in_recep",
    "pick_cool_then_place_in_recep",
    "pick_two_obj_and_place",
)
EDITION = 1
"""Of the invented games; raise it when they change."""
GAMES_FOLDER = "json_2.1.1"
KITCHENS = Path(__file__).with_name("kitchens.jsonl.xz")
_SOLVABLE = re.compile(rb'(?<!\\)"solvable"\s*:\s*true')
"""The key in a game's file. The file is not decoded, because its other keys have long texts."""


class NoDataError(ValueError):
    """The data folder is not there, or not as expected."""


@dataclass(frozen=True)
class Game:
    """One game."""

    split: str
    task_type: str
    folder: str
    """Its folder in that of its split."""
    digest: str
    """Of everything by which it is played."""
    played: Mapping[str, Any]
    """What `AlfworldGame.reset` takes."""
    walkthrough: tuple[str, ...] | None = None
    """Commands that win; `None` if the game's file has them."""

    @property
    def task_id(self) -> str:
        """Its name in AgentFly's data sets, such as `trial_T20190907_212755_456877`."""
        return self.folder.rpartition("/")[2]

    def find_walkthrough(self) -> tuple[str, ...]:
        """Return commands that win.

        Raises:
            NoDataError: The game's file has no goal.
        """
        if self.walkthrough is not None:
            return self.walkthrough
        file = Path(self.played["folder"]) / "game.tw-pddl"
        commands = json.loads(file.read_bytes()).get("walkthrough")
        if not isinstance(commands, list):
            raise NoDataError(f"{file} has no walkthrough: `alfworld-generate` makes one")
        return tuple(map(str, cast("list[object]", commands)))


@dataclass(frozen=True)
class Catalogue:
    """All games, which keep their order."""

    version: str
    games: Mapping[str, Sequence[Game]]
    """By split; every split has at least one."""

    @property
    def splits(self) -> tuple[str, ...]:
        """The names of the splits."""
        return tuple(self.games)


def open_catalogue() -> Catalogue:
    """Return the games of the folder that ALFWORLD_DATA names, else the invented ones. Lists a folder once.

    Raises:
        NoDataError: The folder is not there, or has no games.
    """
    folder = os.environ.get(DATA_VARIABLE)
    return list_folder(Path(folder).expanduser().resolve()) if folder else list_kitchens()


@cache
def list_kitchens() -> Catalogue:
    """Return the invented games."""
    games: dict[str, list[Game]] = {}
    for line in lzma.decompress(KITCHENS.read_bytes()).splitlines():
        entry = json.loads(line)
        played = {key: entry[key] for key in ("task_type", "problem", "sentence")}
        game = Game(
            split=entry["split"],
            task_type=entry["task_type"],
            folder=entry["folder"],
            digest=hashlib.sha256(line).hexdigest(),
            played={"id": entry["folder"], **played},
            walkthrough=tuple(entry["walkthrough"]),
        )
        games.setdefault(game.split, []).append(game)
    return Catalogue(version=f"{EDITION}.1", games=games)


@cache
def list_folder(folder: Path) -> Catalogue:
    """Return the games of a folder in the layout of `alfworld-download`, and read each of its files once.

    Games that alfworld's own loader leaves out are left out.

    Raises:
        NoDataError: The folder is not there, or has no games.
    """
    root = folder / GAMES_FOLDER
    games = {split: tuple(_list_split(root, split)) for split in SPLITS}
    games = {split: listed for split, listed in games.items() if listed}
    if not games:
        raise NoDataError(
            f"{DATA_VARIABLE}={folder} has no games: expected {root}/train/<task>/<trial>/game.tw-pddl; "
            f"download them with `{DATA_VARIABLE}={folder} alfworld-download`, or unset {DATA_VARIABLE} to "
            "play the invented ones"
        )
    whole = hashlib.sha256()
    for game in (game for listed in games.values() for game in listed):
        whole.update(f"{game.split}/{game.folder} {game.digest}\n".encode())
    return Catalogue(version=f"{EDITION}.1+{whole.hexdigest()[:16]}", games=games)


def _list_split(root: Path, split: str) -> Iterator[Game]:
    base = root / split
    for file in sorted(base.glob("*/*/game.tw-pddl")):
        game_folder, folder = file.parent, file.parent.relative_to(base).as_posix()
        task_type = folder.partition("-")[0]
        if task_type not in TASK_TYPES or "movable" in folder or "Sliced" in folder:
            continue
        try:
            parts = ((game_folder / "traj_data.json").read_bytes(), file.read_bytes())
        except OSError as error:
            raise NoDataError(f"{DATA_VARIABLE} cannot be read: {error}") from error
        if _SOLVABLE.search(parts[1]) is None:
            continue
        digest = hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()
        played = {"id": folder, "task_type": task_type, "folder": str(game_folder), "digest": digest}
        yield Game(split=split, task_type=task_type, folder=folder, digest=digest, played=played)
