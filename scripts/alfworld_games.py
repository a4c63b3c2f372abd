"""Makes the invented games that come with the package: tasks/alfworld/kitchens.jsonl.xz.

It needs the Python that has alfworld: ORS_ALFWORLD_PYTHON, or else the one in .venvs/alfworld. Equal seeds
give equal bytes.
"""

import json
import lzma
import os
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from ors_server_tasks.alfworld.catalogue import KITCHENS

HERE = Path(__file__).resolve().parent.parent
SEED = "kitchens-1"
SIZES = {"train": 24, "valid_seen": 12, "valid_unseen": 12}


def main() -> None:
    """Write the file."""
    python = os.environ.get("ORS_ALFWORLD_PYTHON") or str(HERE / ".venvs/alfworld/bin/python")
    program = str(KITCHENS.with_name("kitchens.py"))
    with TemporaryDirectory() as folder:
        sizes = [str(size) for size in SIZES.values()]
        command = [python, program, folder, "--seed", SEED, "--games", *sizes]
        subprocess.run(command, check=True, env={**os.environ, "PYTHONHASHSEED": "0"})
        lines = [json.dumps(read_game(file.parent)) for split in SIZES for file in games_of(folder, split)]
    KITCHENS.write_bytes(lzma.compress("".join(f"{line}\n" for line in lines).encode(), preset=9))
    print(f"{KITCHENS}: {len(lines)} games, {KITCHENS.stat().st_size:,} bytes")


def games_of(folder: str, split: str) -> list[Path]:
    """Return the files of a split's games by their trials, so that types of tasks alternate."""
    return sorted(
        Path(folder).glob(f"json_2.1.1/{split}/*/*/game.tw-pddl"), key=lambda file: file.parent.name[-6:]
    )


def read_game(place: Path) -> dict[str, object]:
    """Return what a game is without alfworld's own domain and grammar."""
    game = json.loads((place / "game.tw-pddl").read_text())
    trajectory = json.loads((place / "traj_data.json").read_text())
    return {
        "split": place.parent.parent.name,
        "folder": f"{place.parent.name}/{place.name}",
        "task_type": trajectory["task_type"],
        "sentence": trajectory["turk_annotations"]["anns"][0]["task_desc"],
        "problem": game["pddl_problem"],
        "walkthrough": game["walkthrough"],
    }


if __name__ == "__main__":
    main()
