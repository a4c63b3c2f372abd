"""Git repair: commits, branches and merges that went wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from ors_server_tasks.shell.draw import Draw
from ors_server_tasks.shell.exercise import Choices, Exercise, Family, Kind, lines_file, without
from ors_server_tasks.shell.families import git_history as past
from ors_server_tasks.shell.families.git_bench import (
    FOLDER,
    MAIN,
    Bench,
    Files,
    Given,
    Required,
    edited,
    exactly,
    history,
    quoted,
    subject,
)
from ors_server_tasks.shell.repository import CommitState, Repository
from ors_server_tasks.shell.vocabulary import PRODUCTS, WORDS, sentence, words


def commit_some(draw: Draw, choices: Choices) -> Exercise:
    """Commit a part of what was changed."""
    rule, told, staged_choice = choices
    repository = Repository(FOLDER)
    bench = Bench(repository)
    base = history(draw, 3)
    tip = repository.chain(base)[-1]
    repository.refs[MAIN] = tip
    files = base[-1][0]
    work = edited(draw, edited(draw, files, "docs/guide.md"), max(files))
    work[f"docs/{draw.pick(WORDS)}.md"] = f"{sentence(draw)}\n".encode()
    work[f"src/{draw.pick(PRODUCTS)}.log"] = f"{sentence(draw)}\n".encode()
    work[f"src/{draw.pick(PRODUCTS)}.py"] = b"done = 1\n"
    tests: tuple[Callable[[str], bool], ...] = (
        lambda path: path.startswith("docs/"),
        lambda path: not path.endswith(".log"),
        lambda path: path in files,
    )
    said = (
        "all changes below docs (new files too) and nothing else",
        "all changes, new files too, except for new files whose names end in .log",
        "the changes of all files that git knows already, and no new files",
    )[rule]
    committed = {**files, **{path: content for path, content in work.items() if tests[rule](path)}}
    message = subject(draw)
    staged = (
        {**files, **{path: work[path] for path in work if path.endswith(".log")}} if staged_choice else files
    )
    if told == 1:
        bench.beside["message.txt"] = lines_file([message])
    ask = (
        "Its work tree has changes that are not "
        f"committed{', and a file is staged that should not be' if staged_choice else ''}. Commit {said}, "
        "as one new commit on main with the message "
        f"{('in message.txt (beside the folder repo)', repr(message))[told == 0]}. All other changes stay "
        "in the work tree as they are, not committed and not staged."
    )
    add = ("git add docs", "git add -A; git reset -q -- '*.log'", "git add -u")[rule]
    commit = (f"git commit -qm {quoted(message)}", "git commit -qF ../message.txt")[told]
    state = CommitState(tree=repository.tree(committed), message=message, parents=(exactly(tip),))
    return bench.exercise(
        ask, Given(work, staged), Required(work, {MAIN: state}, committed), f"git reset -q; {add}; {commit}"
    )


def amend(draw: Draw, choices: Choices) -> Exercise:
    """Repair the last commit."""
    fault, renames, neighbour = choices
    repository = Repository(FOLDER)
    steps = history(draw, 3)
    last = steps[-1][0]
    extra = f"{('src', 'docs')[neighbour]}/{draw.pick(PRODUCTS)}.{('md', 'key')[fault]}"
    secret = f"{sentence(draw)}\n".encode()
    right = {**last, extra: secret} if fault == 0 else last
    wrong = last if fault == 0 else {**last, extra: secret}
    work = {**last, extra: secret}
    old, new = steps[-1][1].replace("e", "ee", 1), subject(draw)
    chain = repository.chain([*steps[:-1], (wrong, old)])
    repository.refs[MAIN] = chain[-1]
    ask = (
        (
            f"The file {extra} was forgotten in the last commit on main.",
            f"The last commit on main wrongly has the file {extra} in it.",
        )[fault]
        + " Replace this commit by one "
        + (
            "that has the file as well",
            "without the file; the file itself stays in the work tree, not tracked",
        )[fault]
        + (
            ". The commit before it stays its parent. The message "
            f"{(f'stays {old!r}', f'becomes {new!r}')[renames]}."
        )
    )
    change = (f"git add {extra}", f"git rm -q --cached {extra}")[fault]
    message = ("--no-edit", f"-m {quoted(new)}")[renames]
    state = CommitState(
        tree=repository.tree(right), message=(old, new)[renames], parents=(exactly(chain[-2]),)
    )
    return Bench(repository).exercise(
        ask,
        Given(work, wrong),
        Required(work, {MAIN: state}, right),
        f"{change}; git commit -q --amend {message}",
    )


def merge_conflict(draw: Draw, choices: Choices) -> Exercise:
    """Merge two branches that changed the same lines."""
    rule, begun, cleans = choices
    repository = Repository(FOLDER)
    steps = history(draw, 2)
    name = draw.pick(("settings.conf", "limits.conf", "values.conf"))
    lines = _Lines.drawn(draw, 3)
    base = {**steps[-1][0], name: _conf(lines.base)}
    start = repository.chain([*steps, (base, subject(draw))])[-1]
    ours: Files = {**base, name: _conf(lines.ours)}
    files: Files = {**edited(draw, base, "docs/guide.md"), name: _conf(lines.side)}
    files["docs/side.md"] = f"{sentence(draw)}\n".encode()
    tip = repository.commit(ours, subject(draw), [start])
    side = repository.commit(files, subject(draw), [start])
    repository.moved(start, tip, "commit: ours")
    repository.refs |= {MAIN: tip, "refs/heads/side": side}
    merged, marked = lines.merged(rule)
    final: Files = {**files, name: merged}
    before = Given(ours)
    if begun == 1:
        staged = [(path, 0, content) for path, content in files.items() if path != name]
        staged += [(name, 1, base[name]), (name, 2, ours[name]), (name, 3, files[name])]
        before = Given({**files, name: marked}, staged)
        repository.extra |= {"MERGE_HEAD": f"{side}\n".encode(), "ORIG_HEAD": f"{tip}\n".encode()}
        repository.extra |= {"MERGE_MODE": b"", "MERGE_MSG": b"Merge branch 'side'\n"}
    ask = (
        (
            "Merge the branch side into main",
            "A merge of the branch side into main has stopped at conflicts. Finish it",
        )[begun]
        + f": where both changed the same line of {name}, {_RESOLUTIONS[rule][0]}; everything else merges "
        "as git does it. The result is a merge commit on main whose parents are main as it was and side, "
        "in this order; its message does not matter. "
        + ("The branch side stays as it is.", "Then delete the branch side.")[cleans]
    )
    begin = "" if begun else "git merge -q side >/dev/null 2>&1; "
    solve = f"{_RESOLUTIONS[rule][1]} {name} > .m; cat .m > {name}; rm .m"
    state = CommitState(tree=repository.tree(final), parents=(exactly(tip), exactly(side)))
    refs = {MAIN: state} if cleans else {MAIN: state, "refs/heads/side": exactly(side)}
    gold = f"{begin}{solve}; git add -A; git commit -qm merged" + ("", "; git branch -q -d side")[cleans]
    return Bench(repository).exercise(ask, before, Required(final, refs), gold)


_RESOLUTIONS = (
    ("keep main's line and then side's line (both)", "sed '/^<<<<<<< /d; /^=======$/d; /^>>>>>>> /d'"),
    ("take side's line", "sed '/^<<<<<<< /,/^=======$/d; /^>>>>>>> /d'"),
    (
        "take the line with the greater number",
        (
            'awk \'/^<<<<<<< / {c = 1; b = ""; m = 0; next} /^=======$/ {next} /^>>>>>>> / {print b; c = '
            "0; next} c {if ($3 > m) {m = $3; b = $0} next} {print}'"
        ),
    ),
)
"""How conflicts are to be resolved, and the command that does it."""


def _conf(values: dict[str, int]) -> bytes:
    return "".join(f"{key} = {value}\n" for key, value in values.items()).encode()


@dataclass(frozen=True, slots=True)
class _Lines:
    """A file of numbers that two branches changed."""

    base: dict[str, int]
    ours: dict[str, int]
    side: dict[str, int]

    @classmethod
    def drawn(cls, draw: Draw, conflicts: int) -> Self:
        """Draw one with conflicts far apart, and a change of each side that the other did not touch."""
        keys = words(draw, 16)
        base = {key: draw.between(10, 99) for key in keys}
        ours, side = dict(base), dict(base)
        for key in keys[2 : 2 + 5 * conflicts : 5]:
            ours[key], side[key] = draw.pick_some(range(100, 999), 2)
        side[keys[-1]] = 7
        ours[keys[0]] = 5
        return cls(base, ours, side)

    def merged(self, rule: int) -> tuple[bytes, bytes]:
        """The file as required, and as git leaves it with its marks."""
        required: list[str] = []
        marked: list[str] = []
        for key, value in self.base.items():
            our_line, side_line = f"{key} = {self.ours[key]}", f"{key} = {self.side[key]}"
            if value in {self.ours[key], self.side[key]}:
                line = our_line if self.side[key] == value else side_line
                required.append(line)
                marked.append(line)
            else:
                required += ([our_line, side_line], [side_line], [max(our_line, side_line)])[rule]
                marked += ["<<<<<<< HEAD", our_line, "=======", side_line, ">>>>>>> side"]
        return lines_file(required).content, lines_file(marked).content


def wrong_branch(draw: Draw, choices: Choices) -> Exercise:
    """Move commits to the branch where they belong."""
    exists, some, dirty = choices
    repository = Repository(FOLDER)
    steps = history(draw, 6)
    chain = repository.chain(steps)
    keep = 2 + some
    name = f"feature/{draw.pick(WORDS)}"
    ref = f"refs/heads/{name}"
    repository.refs[MAIN] = chain[-1]
    if exists:
        repository.refs[ref] = chain[keep - 1]
    stays, tip = steps[keep - 1][0], steps[-1][0]
    note = {f"{draw.pick(PRODUCTS)}.txt": f"{sentence(draw)}\n".encode()} if dirty else {}
    ask = (
        (
            f"The commits on main after the one with the message {steps[keep - 1][1]!r} should have been "
            f"made on the branch {name}"
        )
        + (", which still points to that commit" if exists else ", which does not exist yet")
        + (
            f". Let {name} point to the last of them, and main to the commit with that message. The commits "
            f"themselves stay the same. Afterwards {('main', name)[some]} is checked out"
        )
        + (", and the file that is not tracked is still there" if dirty else "")
        + "."
    )
    gold = f"git branch -f {name}; git reset -q --hard {chain[keep - 1]}"
    if some:
        gold += f"; git checkout -q {name}"
    refs = {MAIN: exactly(chain[keep - 1]), ref: exactly(chain[-1])}
    shown = (stays, tip)[some]
    return Bench(repository).exercise(
        ask,
        Given({**tip, **note}, tip),
        Required({**shown, **note}, refs, shown, (MAIN, ref)[some]),
        gold,
    )


def untrack(draw: Draw, choices: Choices) -> Exercise:
    """Stop tracking files that should never have been."""
    which, listed, message_choice = choices
    repository = Repository(FOLDER)
    steps = history(draw, 2)
    pattern = ("build/", "*.tmp")[which]
    junk: Files = {}
    for word in words(draw, 4):
        junk[(f"build/{word}.o", f"src/{word}.tmp")[which]] = f"{sentence(draw)}\n".encode()
    old = b"*.swp\n" if listed else b""
    tracked = {**steps[-1][0], **junk, **({".gitignore": old} if listed else {})}
    tip = repository.chain([*steps, (tracked, subject(draw))])[-1]
    repository.refs[MAIN] = tip
    work = {**tracked, ("build/new.o", "new.tmp")[which]: b"new\n"}
    right = {path: content for path, content in tracked.items() if path not in junk}
    right[".gitignore"] = old + f"{pattern}\n".encode()
    message = ("Stop tracking what is built", subject(draw))[message_choice]
    ask = (
        f"Files {('below build', 'whose names end in .tmp')[which]} were committed by mistake. Stop "
        "tracking them, but leave all files in the work tree, and have git ignore such files from now on: "
        + (
            "add to the end of .gitignore"
            if listed
            else "write a new file .gitignore (beside README.md) with"
        )
        + f" one line {pattern!r}. Commit both as one new commit on main with the message {message!r}."
    )
    gold = (
        f"echo '{pattern}' >> .gitignore; git ls-files -ci --exclude-standard -z | xargs -0 git rm -q "
        f"--cached; git add .gitignore; git commit -qm {quoted(message)}"
    )
    state = CommitState(tree=repository.tree(right), message=message, parents=(exactly(tip),))
    final = {**work, ".gitignore": right[".gitignore"]}
    return Bench(repository).exercise(ask, Given(work, tracked), Required(final, {MAIN: state}, right), gold)


def broken(draw: Draw, choices: Choices) -> Exercise:
    """Repair a repository that git cannot read any more."""
    fault, dirty = choices
    repository = Repository(FOLDER)
    steps = history(draw, 4)
    chain = repository.chain(steps)
    other = f"refs/heads/{draw.pick(('stable', 'next'))}"
    repository.refs |= {MAIN: chain[-1], other: chain[1]}
    files = steps[-1][0]
    work = edited(draw, files, "README.md") if dirty else files
    log = "".join(f"{line}\n" for line in repository.reflog)
    raw: Files = (
        {"HEAD": b"ref: refs/heads/master\n"},
        {"refs/heads/main": f"{chain[-1][:17]}\n".encode(), "logs/refs/heads/main": log.encode()},
        {"index": b"DIRC\0\0\0\2torn", "index.lock": b""},
    )[fault]
    told = (
        "HEAD names a branch that does not exist; main should be checked out.",
        (
            "The file of the branch main is damaged; the branch should point to its last commit, which its "
            "reflog names."
        ),
        "The index is damaged, and a git that crashed has left a lock. No git runs any more.",
    )[fault]
    ask = (
        f"It was damaged by a crash. {told} Repair it, so that main is checked out, points to its last "
        f"commit (message {steps[-1][1]!r}), and git status finds "
        + ("nothing to commit", "README.md modified but not staged, and nothing else")[dirty]
        + ". The files of the work tree are right; all branches and commits stay the same."
    )
    gold = (
        "git symbolic-ref HEAD refs/heads/main; git reset -q",
        "tail -n 1 .git/logs/refs/heads/main | cut -d' ' -f2 > .git/refs/heads/main; git reset -q",
        "rm -f .git/index .git/index.lock; git reset -q",
    )[fault]
    refs = {MAIN: exactly(chain[-1]), other: exactly(chain[1])}
    return Bench(repository).exercise(ask, Given(work, files, raw), Required(work, refs, files), gold)


FAMILY = Family(
    "git_repair",
    (
        Kind("commit_some", 1, (3, 2, 2), commit_some, without(2)),
        Kind("revert_change", 2, (2, 2, 2), past.revert_change),
        Kind("merge_conflict", 3, (3, 2, 2), merge_conflict),
        Kind("amend", 1, (2, 2, 2), amend),
        Kind("lost_commit", 3, (2, 2, 2), past.lost_commit, without(2)),
        Kind("wrong_branch", 2, (2, 2, 2), wrong_branch),
        Kind("first_bad", 2, (2, 2, 2), past.first_bad, without(2)),
        Kind("untrack", 2, (2, 2, 2), untrack, without(1)),
        Kind("squash", 3, (2, 2, 2), past.squash, without(0)),
        Kind("tidy_branches", 1, (2, 2, 2), past.tidy_branches),
        Kind("pick_fixes", 3, (2, 2, 2), past.pick_fixes, without(1)),
        Kind("broken", 2, (3, 2), broken, without(1)),
    ),
)
