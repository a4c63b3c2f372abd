"""Git repair, continued: what is found in, taken from or rewritten in the history."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ors_server_tasks.shell.exercise import Exercise, lines_file
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
    project,
    quoted,
    subject,
)
from ors_server_tasks.shell.repository import CommitState, Repository
from ors_server_tasks.shell.vocabulary import PRODUCTS, WORDS, words

if TYPE_CHECKING:
    from ors_server_tasks.shell.draw import Draw
    from ors_server_tasks.shell.exercise import Choices


def revert_change(draw: Draw, choices: Choices) -> Exercise:
    """Undo an old change by a new commit."""
    clue, told, new_file = choices
    repository = Repository(FOLDER)
    files = project(draw)
    paths = sorted(path for path in files if path.startswith("src/"))
    target = f"src/{draw.pick(PRODUCTS)}.py" if new_file else paths[0]
    line = f"debug_{draw.between(100, 999)} = True"
    steps: list[tuple[Files, str]] = [(files, subject(draw))]
    undone = draw.between(2, 4)
    for number in range(1, 7):
        if number == undone:
            files = {**files, target: files.get(target, b"") + f"{line}\ntrace = 1\n".encode()}
        else:
            files = edited(draw, files, draw.pick((*paths[1:], "README.md", "docs/guide.md")))
        steps.append((files, subject(draw)))
    chain = repository.chain(steps)
    repository.refs[MAIN] = chain[-1]
    clean = {**files, **({target: steps[0][0][target]} if not new_file else {})}
    if new_file:
        del clean[target]
    message = subject(draw)
    which = (
        f"with the message {steps[undone][1]!r}",
        f"that brought the line {line!r} into a file below src",
    )[clue]
    ask = (
        f"Undo the change of the commit {which} by one new commit on top of main"
        + (f" with the message {message!r}" if told else " (its message does not matter)")
        + ". All that other commits changed stays, and so do the commits themselves."
    )
    find = (
        f"git log --format='%H %s' | grep -F {quoted(' ' + steps[undone][1])} | cut -d' ' -f1",
        f"git log -S {quoted(line)} --format=%H -- src",
    )[clue]
    commit = ("git revert --no-edit", "git revert -n")[told]
    gold = f"{commit} $({find}) >/dev/null" + (f"; git commit -qm {quoted(message)}" if told else "")
    state = CommitState(
        tree=repository.tree(clean), message=message if told else None, parents=(exactly(chain[-1]),)
    )
    return Bench(repository).exercise(ask, Given(files), Required(clean, {MAIN: state}), gold)


def lost_commit(draw: Draw, choices: Choices) -> Exercise:
    """Find a commit that no branch holds any more."""
    trail, goal, decoys = choices
    repository = Repository(FOLDER)
    steps = history(draw, 3)
    chain = repository.chain(steps)
    lost: list[tuple[str, Files, str]] = []
    for _ in range(2 + decoys):
        files = edited(draw, edited(draw, steps[-1][0], f"src/{draw.pick(PRODUCTS)}.py"), "README.md")
        message = subject(draw)
        oid = repository.commit(files, message, [chain[-1]])
        repository.moved(chain[-1], oid, f"commit: {message}")
        repository.moved(oid, chain[-1], "reset: moving to HEAD~1")
        lost.append((oid, files, message))
    if trail == 1:
        repository.reflog.clear()
    repository.refs[MAIN] = chain[-1]
    oid, files, message = draw.pick(lost)
    deed = (
        "let a new branch rescue point to it; main and the work tree stay as they are",
        "let main, which is checked out, point to it again, with the work tree as in that commit",
    )[goal]
    ask = (
        f"A commit with the message {message!r} was made on main and then thrown away with git reset --hard"
        + (", and the reflog is gone too" if trail else "")
        + (f". It is still in the repository. Find it and {deed}.")
    )
    search = (
        "git log -g --format='%H %s'",
        (
            "git fsck --unreachable --no-progress 2>/dev/null | awk '$2 == \"commit\" {print $3}' | "
            "xargs git log --no-walk --format='%H %s'"
        ),
    )[trail]
    end = ("git branch rescue $c", "git reset -q --hard $c")[goal]
    gold = f"c=$({search} | grep -F {quoted(' ' + message)} | head -n 1 | cut -d' ' -f1); {end}"
    refs = ({MAIN: exactly(chain[-1]), "refs/heads/rescue": exactly(oid)}, {MAIN: exactly(oid)})[goal]
    return Bench(repository).exercise(
        ask, Given(steps[-1][0]), Required((steps[-1][0], files)[goal], refs), gold
    )


def first_bad(draw: Draw, choices: Choices) -> Exercise:
    """Find the commit with which something began."""
    question, answer, returns = choices
    repository = Repository(FOLDER)
    base = project(draw)
    count, start = draw.between(18, 26), draw.between(7, 14)
    word, limit = draw.pick(WORDS), draw.between(40, 60)
    steps: list[tuple[Files, str]] = []
    for number in range(count):
        is_bad = number >= start and not (returns and number in {start + 2, start + 3})
        value = draw.between(limit + 1, 99) if is_bad else draw.between(1, limit)
        text = (
            f"timeout = {value if question == 0 else limit}\nmode = "
            f"{word if question == 1 and is_bad else 'plain'}\nround = {number}\n"
        )
        steps.append(({**base, "app.conf": text.encode()}, subject(draw)))
    chain = repository.chain(steps)
    repository.refs[MAIN] = chain[-1]
    bench = Bench(repository)
    fault = (f"timeout in app.conf is greater than {limit}", f"app.conf has the line 'mode = {word}'")[
        question
    ]
    deed = (
        (
            "Write its full hash (40 digits), and nothing else, as one line to answer.txt beside the "
            "folder repo, and change nothing in the repository."
        ),
        "Make a tag first-bad (not annotated) that points to it, and change nothing else in the repository.",
    )[answer]
    ask = (
        f"Find the earliest commit on main in which {fault}"
        + (" (it was then right again for a while)" if returns else " (from then on it always is)")
        + f". {deed}"
    )
    test = (f"awk -v n={limit} '/^timeout = / {{exit !($3 > n)}}'", f"grep -qx 'mode = {word}'")[question]
    end = ("echo $c > ../answer.txt", "git tag first-bad $c")[answer]
    gold = (
        f"for c in $(git rev-list --reverse main); do if git show $c:app.conf | {test}; then {end}; break; "
        "fi; done"
    )
    refs = {MAIN: exactly(chain[-1])}
    if answer == 0:
        bench.written["answer.txt"] = lines_file([chain[start]])
    else:
        refs["refs/tags/first-bad"] = exactly(chain[start])
    files = steps[-1][0]
    return bench.exercise(ask, Given(files), Required(files, refs), gold)


def squash(draw: Draw, choices: Choices) -> Exercise:
    """Make one commit of several."""
    clue, told, above = choices
    repository = Repository(FOLDER)
    steps = history(draw, 8)
    chain = repository.chain(steps)
    last = len(steps) - 1 - above
    first = last - draw.between(2, 3)
    repository.refs[MAIN] = chain[-1]
    if clue == 1:
        repository.refs["refs/tags/v1"] = chain[first - 1]
    message = steps[last][1] if told == 0 else subject(draw)
    span = (
        (
            f"the commits on main from the one with the message {steps[first][1]!r} to the one with the "
            f"message {steps[last][1]!r}, both included,"
        ),
        f"all commits on main after the tag v1{' except for the last one on main' if above else ''}",
    )[clue]
    ask = (
        f"Make one commit of {span} with the files of the last of them and "
        + (f"the message {message!r}" if told else "the message of the last of them")
        + ". The commits before them stay the same."
        + (
            " The one commit after them follows upon the new one, with its files and its message."
            if above
            else ""
        )
    )
    gold = (
        (
            f"b={chain[first - 1]}; t=$(git rev-parse HEAD); l=$(git rev-parse HEAD~{above}); n=$(git "
            f"commit-tree -p $b -m {quoted(message)} $l^{{tree}}); "
        )
        + (f"n=$(git commit-tree -p $n -m {quoted(steps[-1][1])} $t^{{tree}}); " if above else "")
        + "git reset -q --soft $n"
    )
    state = CommitState(
        tree=repository.tree(steps[last][0]), message=message, parents=(exactly(chain[first - 1]),)
    )
    if above:
        state = CommitState(tree=repository.tree(steps[-1][0]), message=steps[-1][1], parents=(state,))
    refs = {MAIN: state}
    if clue == 1:
        refs["refs/tags/v1"] = exactly(chain[first - 1])
    return Bench(repository).exercise(ask, Given(steps[-1][0]), Required(steps[-1][0], refs), gold)


def tidy_branches(draw: Draw, choices: Choices) -> Exercise:
    """Remove branches that are merged, and keep or put away the others."""
    rest, everywhere, spares = choices
    repository = Repository(FOLDER)
    steps = history(draw, 5)
    chain = repository.chain(steps)
    repository.refs[MAIN] = chain[-1]
    refs = {MAIN: exactly(chain[-1])}
    group = ("topic/", "")[everywhere]
    for number, word in enumerate(words(draw, draw.between(6, 8))):
        ref = f"refs/heads/{group}{word}"
        if number % 2 == 0:
            repository.refs[ref] = draw.pick(chain)
            continue
        base = draw.below(len(chain))
        oid = repository.commit(edited(draw, steps[base][0], f"src/{word}.py"), subject(draw), [chain[base]])
        repository.refs[ref] = oid
        refs[f"refs/tags/archive/{word}" if rest == 1 else ref] = exactly(oid)
    stay = ["main", *(["old-main"] if spares else []), *(["stable"] if group else [])]
    for name in stay[1:]:
        repository.refs[f"refs/heads/{name}"] = chain[0]
        refs[f"refs/heads/{name}"] = exactly(chain[0])
    concerned = "the branches whose names begin with topic/" if group else "all branches"
    ask = (
        f"This is about {concerned}, except {'main and old-main' if spares else 'main'}: delete those whose "
        "last commit is part of main's history. "
    ) + (
        "The others stay."
        if rest == 0
        else (
            "For each of the others make a tag (not annotated) archive/NAME at its last commit, where NAME "
            f"is the branch's name{' without topic/' if group else ''}, and then delete the branch too."
        )
    )
    skip = " | grep -vx -e main -e old-main" if spares else " | grep -vx main"
    names = f"git for-each-ref --format='%(refname:short)' refs/heads{'/topic' if group else ''}"
    gold = f"{names} --merged main{skip} | xargs git branch -q -D"
    if rest == 1:
        tag = "archive/${b#topic/}" if group else "archive/$b"
        gold += f"; {names}{skip} | while read -r b; do git tag {tag} $b; git branch -q -D $b; done"
    files = steps[-1][0]
    return Bench(repository).exercise(ask, Given(files), Required(files, refs), gold)


def pick_fixes(draw: Draw, choices: Choices) -> Exercise:
    """Bring some commits of one branch to another."""
    clue, where, tagged = choices
    repository = Repository(FOLDER)
    steps = history(draw, 2)
    chain = repository.chain(steps)
    base = steps[-1][0]
    release: Files = {**base, "VERSION": b"1.2\n"}
    released = repository.commit(release, subject(draw), [chain[-1]])
    files, tip = base, chain[-1]
    state, result = exactly(released), dict(release)
    for number, word in enumerate(words(draw, 7)):
        is_fix = number % 2 == 1
        path = f"{('src', 'fixes')[is_fix and clue == 1]}/{word}.py"
        content = f"{word} = {draw.between(1, 99)}\n".encode()
        files = {**files, path: content}
        message = ("[fix] " if is_fix and clue == 0 else "") + subject(draw)
        tip = repository.commit(files, message, [tip])
        repository.moved(chain[-1], tip, f"commit: {message}")
        if is_fix:
            result[path] = content
            state = CommitState(tree=repository.tree(result), message=message, parents=(state,))
    repository.refs |= {MAIN: tip, "refs/heads/release": released}
    repository.head = (MAIN, "refs/heads/release")[where]
    which = ("whose message begins with [fix]", "that add a file below the folder fixes")[clue]
    ask = (
        f"Bring the commits on main {which}, and no others, to the branch release: each as a commit of its "
        "own with the same message and the same change, in the same order. main stays as it is. Now "
        f"{('main', 'release')[where]} is checked out; afterwards release is."
        + ("", " Last, make a tag v1.3 (not annotated) at the new end of release.")[tagged]
    )
    find = (r"--grep='^\[fix\]'", "-- fixes")[clue]
    gold = (
        f"git checkout -q release; git cherry-pick $(git rev-list --reverse release..main {find}) >/dev/null"
    )
    refs = {MAIN: exactly(tip), "refs/heads/release": state}
    if tagged:
        gold += "; git tag v1.3"
        refs["refs/tags/v1.3"] = state
    return Bench(repository).exercise(
        ask, Given((files, release)[where]), Required(result, refs, head="refs/heads/release"), gold
    )
