"""File organisation, continued: equal files, files to bundle or to throw away, and copies of folders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ors_server_tasks.shell.exercise import (
    EPOCH,
    Archive,
    Exercise,
    File,
    Folder,
    Link,
    Tree,
    changed,
    lines_file,
)
from ors_server_tasks.shell.vocabulary import SERVICES, paragraph, words

if TYPE_CHECKING:
    from ors_server_tasks.shell.draw import Draw
    from ors_server_tasks.shell.exercise import Choices

_DAY = 86_400


def duplicates(draw: Draw, choices: Choices) -> Exercise:
    """Find files with equal content and keep one of each."""
    action, keeper, nested = choices
    texts = [f"{word}\n{paragraph(draw, 3)}" for word in words(draw, 9)]
    folders = ("files", "files/a", "files/b")[: 1 + 2 * nested]
    files: dict[str, File] = {}
    for number, name in enumerate(words(draw, 22)):
        text = texts[number] if number < len(texts) else draw.pick(texts)
        files[f"{draw.pick(folders)}/{name}{'' if draw.chance(40) else '-copy'}.txt"] = File(text.encode())
    files["files/near.txt"] = File(f"{texts[0]}\n".encode())
    groups: dict[bytes, list[str]] = {}
    for path in sorted(files, reverse=keeper == 1):
        groups.setdefault(files[path].content, []).append(path)
    gone = [path for group in groups.values() for path in group[1:]]
    keepers = {path: group[0] for group in groups.values() for path in group[1:]}
    extra: tuple[Tree, Tree, Tree] = (
        {},
        {"removed.txt": lines_file(sorted(gone))},
        {path: Link("../" * (path.count("/") - 1) + keepers[path].removeprefix("files/")) for path in gone},
    )
    which = ("comes first", "comes last")[keeper]
    deed = (
        "delete all but one",
        (
            "delete all but one, and write the paths of the deleted files (such as files/x.txt) to "
            "removed.txt, one per line, sorted"
        ),
        (
            "replace all but one by symbolic links to it; a link's text is the shortest relative path from "
            "the link's own folder, such as x.txt or ../b/x.txt or ../x.txt"
        ),
    )[action]
    ask = (
        f"Some files {'below' if nested else 'in'} the folder files have exactly the same content, byte for "
        f"byte. Of each such group {deed}. The one that stays as it is, is the one whose path (such as "
        f"files/x.txt) {which} when the paths are sorted."
    )
    if action == len(extra) - 1 and nested:
        extra[action].update({path: Link(_relative(path, keepers[path])) for path in gone})
    do = ('rm "$f"', 'rm "$f"; echo "$f" >> removed.txt', 'ln -sfr "${first[$h]}" "$f"')[action]
    gold = (
        'export LC_ALL=C; declare -A first; while IFS= read -r f; do h=$(sha256sum < "$f"); if [ -n '
        f'"${{first[$h]}}" ]; then {do}; else first[$h]=$f; fi; '
        f"done < <(find files -type f | sort{' -r' if keeper else ''})"
        + ("; sort -o removed.txt removed.txt" if action == 1 else "")
    )
    return Exercise(
        ask,
        files,
        changed(files, extra[action], tuple(set(gone) - extra[action].keys())),
        gold,
        whole=("files",),
    )


def _relative(link: str, target: str) -> str:
    """The shortest path from a link's folder to a target."""
    ours, other = link.split("/")[:-1], target.split("/")
    while ours and ours[0] == other[0]:
        del ours[0], other[0]
    return "/".join([".."] * len(ours) + other)


@dataclass(frozen=True, slots=True)
class _Rule:
    """Which files are meant."""

    said: str
    test: Callable[[str, File], bool]
    """Takes the path and the file."""
    find: str
    """The same for find."""


def _larger(limit: int) -> _Rule:
    return _Rule(
        f"that are larger than {limit} bytes", lambda _, node: len(node.content) > limit, f"-size +{limit}c"
    )


_OLD = _Rule(
    "that were last modified before 2025-01-01 00:00 UTC",
    lambda _, node: node.mtime < EPOCH - 365 * _DAY,
    "! -newermt '2024-12-31 23:59:59 UTC'",
)


def bundle(draw: Draw, choices: Choices) -> Exercise:
    """Put certain files into an archive."""
    gzipped, rule, removes = choices
    limit = draw.between(300, 500, 20)
    files: dict[str, File] = {}
    for word in words(draw, draw.between(14, 20)):
        folder = draw.pick(("reports", "reports/old", "reports/old/drafts", "reports/new"))
        size = draw.between(100, 900)
        age = draw.between(1, 700) * _DAY
        files[f"{folder}/{word}.{draw.pick(('txt', 'csv', 'log'))}"] = File(
            (f"{word} " * size).encode()[: size - 1] + b"\n", mtime=EPOCH - age
        )
    rules = (
        _Rule("whose names end in .log", lambda path, _: path.endswith(".log"), "-name '*.log'"),
        _larger(limit),
        _OLD,
    )
    chosen = {path: node.content for path, node in files.items() if rules[rule].test(path, node)}
    name = ("logs.tar.gz", "logs.tar")[gzipped]
    ask = (
        f"Make {('a gzip-compressed tar archive', 'an uncompressed tar archive')[gzipped]} {name} of "
        f"exactly those files below the folder reports {rules[rule].said}, with their paths from the "
        "current directory (such as reports/old/x.txt). "
        + ("Then delete these files; all others stay." if removes else "All files stay where they are.")
    )
    flag = ("-czf", "-cf")[gzipped]
    gold = f"find reports -type f {rules[rule].find} -print0 > .list; tar {flag} {name} --null -T .list" + (
        "; xargs -0 rm < .list; rm .list" if removes else "; rm .list"
    )
    after = changed(files, {name: Archive(chosen, gzipped=gzipped == 0)}, tuple(chosen) if removes else ())
    return Exercise(ask, {**files}, after, gold, whole=("reports",))


def prune(draw: Draw, choices: Choices) -> Exercise:
    """Delete files by a rule, with exceptions."""
    rule, listed = choices
    limit = draw.between(300, 500, 20)
    files: dict[str, File] = {}
    for number, word in enumerate(words(draw, draw.between(16, 22))):
        folder = draw.pick(("cache", "cache/x", "cache/y", "cache/y/z"))
        size = 0 if number % 4 == 1 else draw.between(100, 900)
        mtime = EPOCH - draw.between(1, 700) * _DAY
        suffix = draw.pick((".dat", ".tmp", ".bak", "~"))
        files[f"{folder}/{word}{suffix}"] = File((f"{word} " * size).encode()[:size], mtime=mtime)
    rules = (
        _larger(limit),
        _OLD,
        _Rule(
            "whose names end in .tmp or ~",
            lambda path, _: path.endswith((".tmp", "~")),
            "\\( -name '*.tmp' -o -name '*~' \\)",
        ),
        _Rule("that are empty", lambda _, node: not node.content, "-empty"),
    )
    hit = [path for path, node in files.items() if rules[rule].test(path, node)]
    spared = (
        set(draw.pick_some(hit, 2) + draw.pick_some(sorted(files.keys() - set(hit)), 2))
        if listed
        else set[str]()
    )
    ask = (
        f"Delete all files below the folder cache {rules[rule].said}"
        + (", except those that are listed in keep.txt, one path per line" if listed else "")
        + ". All other files stay as they are; folders that become empty stay too."
    )
    keep = " | grep -vxFf keep.txt" if listed else ""
    gold = f"find cache -type f {rules[rule].find}{keep} | tr '\\n' '\\0' | xargs -0 -r rm"
    folders: Tree = {path.rpartition("/")[0]: Folder() for path in files}
    before: Tree = {**files}
    if listed:
        before["keep.txt"] = lines_file(sorted(spared))
    after = {**folders, **changed(before, {}, tuple(set(hit) - spared))}
    return Exercise(ask, before, after, gold, whole=("cache",))


def mirror(draw: Draw, choices: Choices) -> Exercise:
    """Make one folder the image of another, with a report or with rules."""
    deletes, report, skips = choices
    names = [
        f"{draw.pick(SERVICES[:3])}/{word}.{draw.pick(('txt', 'tmp', 'cfg'))}" for word in words(draw, 20)
    ]
    source: Tree = {f"master/{name}": File(paragraph(draw, 2).encode()) for name in names[:15]}
    copy: Tree = {}
    for name in names[4:20]:
        original = source.get(f"master/{name}")
        copy[f"copy/{name}"] = (
            original if original is not None and draw.chance(60) else File(paragraph(draw, 2).encode())
        )
    before: Tree = {**source, **copy}
    wanted = {
        path.replace("master/", "copy/"): node
        for path, node in source.items()
        if not (skips and path.endswith(".tmp"))
    }
    added = sorted(wanted.keys() - copy.keys())
    updated = sorted(path for path in wanted if path in copy and copy[path] != wanted[path])
    gone = sorted(path for path in copy if path.replace("copy/", "master/") not in source) if deletes else []
    rows = (
        [f"added {path}" for path in added]
        + [f"deleted {path}" for path in gone]
        + [f"updated {path}" for path in updated]
    )
    ask = (
        "Bring the folder copy up to date with the folder master, which stays as it is: copy what copy "
        "lacks, and replace what has another content"
        + (", but leave files whose names end in .tmp alone in both folders" if skips else "")
        + (
            ". Delete the files of copy that master does not have"
            if deletes
            else ". Files that only copy has stay"
        )
        + (", even .tmp files" if skips and deletes else "")
        + ". Folders without files may stay or go."
        + (
            " Write to report.txt one line for each file that you added, updated or deleted: the word "
            "added, updated or deleted, one space and the path (such as copy/auth/x.txt), all lines sorted."
            if report
            else ""
        )
    )
    note = ' echo "{0} $c" >> .r;' if report else ""
    skip = " ! -name '*.tmp'" if skips else ""
    gold = (
        f"export LC_ALL=C; {': > .r; ' if report else ''}find master -type f{skip} | while IFS= read -r m; "
        "do c=copy/${m#master/}; "
        f'if [ ! -e "$c" ]; then mkdir -p "${{c%/*}}"; cp "$m" "$c";{note.format("added")} elif ! cmp -s '
        f'"$m" "$c"; then cp "$m" "$c";{note.format("updated")} fi; done'
        + (
            (
                '; find copy -type f | while IFS= read -r c; do [ -e "master/${c#copy/}" ] || { rm '
                f'"$c";{note.format("deleted")} }}; done'
            )
            if deletes
            else ""
        )
        + ("; sort .r > report.txt; rm .r" if report else "")
    )
    changes = {**wanted, **({"report.txt": lines_file(rows)} if report else {})}
    return Exercise(ask, before, changed(before, changes, tuple(gone)), gold, whole=("master", "copy"))
