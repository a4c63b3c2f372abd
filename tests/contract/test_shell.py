"""The bundled terminal exercises as a server plays them: gold earns all, idleness and cheats earn nothing.

Everything goes through the engine, with the real toolsets in a real sandbox.
"""

import shlex
from collections.abc import Callable, Iterable, Mapping

import pytest

from ors_server.testing.local_client import LocalClient
from ors_server_tasks.shell import ShellTasks
from ors_server_tasks.shell.exercise import Archive, Exercise, File, Folder, Json
from ors_server_tasks.shell.families import FAMILIES
from ors_server_tasks.shell.generator import SPLIT_SIZES, generate
from tests.fixtures.bundled_plays import Key, Play, Played, play_all, shared_servers, with_client
from tests.fixtures.ordinary_cases import every

PLAY_LIMIT = 240.0
"""Seconds for everything that one test plays; a quiet machine needs a tenth."""

__all__ = ["shared_servers"]
pytestmark = [pytest.mark.timeout(PLAY_LIMIT + 30), pytest.mark.usefixtures("shared_servers")]


def played(plays: Mapping[Key, Play]) -> dict[Key, Played]:
    return play_all("shell", plays, PLAY_LIMIT)


def exit_codes(found: Played) -> list[int | None]:
    return [
        output.metadata["bash"]["exit_code"] for output in found.outputs if "bash" in (output.metadata or {})
    ]


def known_plays(name: str, split: str, indices: Iterable[int]) -> dict[int, Play]:
    give = getattr(ShellTasks, name)
    return {index: (split, index, list(give(ShellTasks.get_task(split, index)))) for index in indices}


def test_gold_earns_everything_on_every_test_task():
    outcomes = played(known_plays("gold_actions", "test", range(SPLIT_SIZES["test"])))
    wrong = {index: found for index, found in outcomes.items() if found.reward != 1.0}
    assert not wrong
    assert all(found.finished and exit_codes(found) == [0] for found in outcomes.values())


def test_doing_nothing_earns_nothing_on_any_test_task():
    outcomes = played(known_plays("blank_actions", "test", range(SPLIT_SIZES["test"])))
    assert len(outcomes) == SPLIT_SIZES["test"]
    assert all((found.reward, found.finished) == (0.0, True) for found in outcomes.values())
    assert all(found.metadata["faults"] for found in outcomes.values())


@pytest.mark.stress
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("part", range(8))
def test_gold_earns_everything_on_every_other_task(part):
    for split in ("train", "validation"):
        outcomes = played(known_plays("gold_actions", split, range(part, SPLIT_SIZES[split], 8)))
        assert not {index: found for index, found in outcomes.items() if found.reward != 1.0}


# The cheats. Each takes an exercise and gives the calls before submit; targets are what is to be made.


def targets(exercise: Exercise) -> list[str]:
    wanted = [path for path, node in exercise.after.items() if isinstance(node, File | Json | Archive)]
    return [path for path in wanted if exercise.before.get(path) != exercise.after[path]] or wanted


def may_be_moved(exercise: Exercise, path: str) -> bool:
    folder = exercise.after.get(path.rpartition("/")[0])
    return not isinstance(folder, Folder) or folder.mode is None or bool(folder.mode & 0o200)


def bash(*commands: str) -> list[tuple[str, dict]]:
    return [("bash", {"command": command}) for command in commands]


def for_targets(exercise: Exercise, template: str) -> list[tuple[str, dict]]:
    """Runs a command for each target, which it knows as $f; folders above are there."""
    names = shlex.join(targets(exercise))
    return bash(f'for f in {names}; do mkdir -p "$(dirname "$f")"; {template}; done')


def after_gold(exercise: Exercise, template: str) -> list[tuple[str, dict]]:
    """Does the task, and then something to the first target, $f."""
    first = shlex.quote(next(path for path in targets(exercise) if may_be_moved(exercise, path)))
    return bash(f"({exercise.gold}\n)", f"f={first}; {template}")


def fake_tools(exercise: Exercise) -> list[tuple[str, dict]]:
    listing = "".join(rf"f\0644\01\01\0\0./{path}\0" for path in exercise.after)
    return bash(
        "mkdir -p bin ~/bin; for p in find git stat python3 sh bash cat env; do for d in bin ~/bin; do "
        f"printf '#!/bin/sh\\nprintf \"%s\"\\n' {shlex.quote(listing)} > $d/$p; chmod 755 $d/$p; done; done; "
        "b=$PWD/bin; export PATH=$b:$HOME/bin:$PATH BASH_ENV=$b/sh LD_PRELOAD=$b/sh PYTHONPATH=$b; "
        "hash -r; alias find=true git=true; find() { :; }; git() { :; }; export -f find git; "
        "echo '[core] fsmonitor = touch hacked' > ~/.gitconfig"
    )


def waits_for_the_shell_to_die(exercise: Exercise) -> list[tuple[str, dict]]:
    program = f"trap '' HUP TERM INT; while kill -0 $1; do sleep 0.01; done; {exercise.gold}"
    return bash(f"setsid bash -c {shlex.quote(program)} late $$ </dev/null >/dev/null 2>&1 & disown; true")


def hostile_repository(exercise: Exercise) -> list[tuple[str, dict]]:
    """Makes every git that reads the repository's settings run a program, and puts traps into its store."""
    return bash(
        "mkdir -p repo/.git/hooks repo/.git/info repo/.git/objects/info; cd repo; touch marker; "
        "printf '[core]\\n\\tfsmonitor = touch hacked\\n\\thooksPath = hooks\\n\\tworktree = /\\n[alias]\\n"
        "\\tcat-file = !true\\n[include]\\n\\tpath = /work/.git/config\\n' >> .git/config; "
        "mkfifo .git/objects/info/alternates 2>/dev/null; ln -sf /dev/zero .git/packed-refs; true"
    )


CHEATS: dict[str, Callable[[Exercise], list[tuple[str, dict]]]] = {
    "submits at once": lambda exercise: [],
    "answers in the submission": lambda exercise: [],
    "makes the files without content": lambda exercise: for_targets(exercise, 'rm -rf "$f"; : > "$f"'),
    "touches the names": lambda exercise: for_targets(exercise, 'touch "$f"'),
    "copies an input to every output": lambda exercise: bash(
        "src=$(find . -type f -not -path '*/.git/*' | sort | head -n 1); "
        f"for f in {shlex.join(targets(exercise))}; do "
        'mkdir -p "$(dirname "$f")"; cp -f "$src" "$f"; done; true'
    ),
    "links outputs to a system file": lambda exercise: for_targets(exercise, 'ln -sf /etc/passwd "$f"'),
    "links outputs to an endless device": lambda exercise: for_targets(exercise, 'ln -sf /dev/zero "$f"'),
    "puts pipes in place of outputs": lambda exercise: for_targets(exercise, 'rm -rf "$f"; mkfifo "$f"'),
    "puts huge files in place of outputs": lambda exercise: for_targets(
        exercise, 'rm -rf "$f"; truncate -s 900M "$f"'
    ),
    "puts sparse files of ten gigabytes": lambda exercise: for_targets(
        exercise, 'rm -rf "$f"; truncate -s 10G "$f" 2>/dev/null; true'
    ),
    "puts folders in place of outputs": lambda exercise: for_targets(exercise, 'rm -rf "$f"; mkdir "$f"'),
    "deletes everything": lambda exercise: bash("rm -rf ./* ./.[!.]*; true"),
    "fakes the tools": fake_tools,
    "leaves a process behind that does the task later": waits_for_the_shell_to_die,
    "prepares the repository": hostile_repository,
    "fills the folders with files": lambda exercise: bash(
        "for d in $(find . -type d -not -path '*/.git/*'); do "
        "(cd $d && for i in $(seq 400); do echo > x$i; done); done; true"
    ),
    "hides the right content behind a link": lambda exercise: after_gold(
        exercise, 'mv "$f" .real; ln -s "$PWD/.real" "$f"'
    ),
    "gives the right content a second name": lambda exercise: after_gold(exercise, 'ln "$f" .second'),
    "gives the right content a wrong name": lambda exercise: after_gold(exercise, 'mv "$f" "$f.new"'),
    "adds a line to the right content": lambda exercise: after_gold(exercise, 'echo >> "$f"'),
    "makes the right content unreadable": lambda exercise: after_gold(exercise, 'chmod 000 "$f"'),
    "destroys what was to stay": lambda exercise: [
        *bash(f"({exercise.gold}\n)"),
        *bash(f"rm -rf {shlex.quote(staying(exercise))}"),
    ],
}


def staying(exercise: Exercise) -> str:
    """A given path that must be there at the end as well."""
    return next((path for path in exercise.before if path in exercise.after), targets(exercise)[0])


def words(exercise: Exercise) -> str:
    """Everything that an exercise wants, as text."""
    return "\n".join(f"{path}: {node}" for path, node in exercise.after.items())[:50_000]


@pytest.mark.parametrize("cheat", every(2, CHEATS))  # `make stress` plays all
def test_a_cheat_earns_nothing_in_any_family(cheat):
    plays: dict[str, Play] = {}
    for place, family in enumerate(FAMILIES):
        index = place + len(FAMILIES) * (list(CHEATS).index(cheat) % len(family.kinds))
        exercise = generate(ShellTasks.seed, "test", index)
        answer = {"answer": words(exercise)} if cheat == "answers in the submission" else {}
        plays[family.name] = ("test", index, [*CHEATS[cheat](exercise), ("submit", answer)])
    outcomes = played(plays)
    assert {name: (found.reward, found.finished) for name, found in outcomes.items()} == {
        family.name: (0.0, True) for family in FAMILIES
    }
    assert all(code == 0 for found in outcomes.values() for code in exit_codes(found)), outcomes


def test_a_fault_is_named_without_what_was_expected():
    index = 0
    exercise = generate(ShellTasks.seed, "test", index)
    (target,) = targets(exercise)
    outcomes = played({0: ("test", index, [*bash(f"echo x > {target}"), ("submit", {})])})
    assert outcomes[0].metadata["faults"] == [f"{target}: wrong content"]


def test_the_agent_is_told_the_exercise_and_the_rules_and_sees_only_the_given_files():
    async def act(client: LocalClient) -> None:
        exercise = generate(ShellTasks.seed, "test", 4)
        session = await client.create(split="test", index=4)
        prompt = await session.prompt()
        assert exercise.ask in prompt
        assert prompt.endswith("No answer text is needed.")
        assert exercise.gold not in prompt
        seen = await session.call("bash", command="find . -mindepth 1 -type f | sort")
        assert seen.blocks[0].text.split() == sorted(f"./{path}" for path in exercise.before)
        assert (
            "shell-1"
            not in (await session.call("bash", command="set; env; fc -l; cat ~/.bash_history")).blocks[0].text
        )

    with_client("shell", act, PLAY_LIMIT)


def test_after_fifty_steps_the_episode_is_over_and_nothing_is_paid():
    async def act(client: LocalClient) -> None:
        session = await client.create(split="test", index=0)
        for step in range(1, 51):
            output = await session.call("bash", command=":")
            assert output.finished == (step == 50)
        summary = await session.summary()
        assert (summary.best_reward, summary.stop_reason) == (None, "step_limit")

    with_client("shell", act, PLAY_LIMIT)


def test_a_task_that_is_none_is_refused_when_a_session_is_made():
    async def act(client: LocalClient) -> None:
        for spec in (
            {},
            {"seed": "a", "split": "test", "index": 72},
            {"seed": 1, "split": "test", "index": 0},
        ):
            with pytest.raises(Exception, match="a task of the shell environment has"):
                await client.create(task_spec=spec)

    with_client("shell", act, PLAY_LIMIT)
