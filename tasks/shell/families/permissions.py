"""Permissions: reading, repairing and reporting the modes of files and folders."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ors_server_tasks.shell.draw import Draw
from ors_server_tasks.shell.exercise import Choices, Exercise, Family, File, Folder, Kind, Tree, lines_file
from ors_server_tasks.shell.families import permissions_rules as rules
from ors_server_tasks.shell.families.permissions_rules import (
    FILE_MODES,
    FOLDER_MODES,
    listing,
    mode_of,
    random_tree,
    with_modes,
)
from ors_server_tasks.shell.vocabulary import words


def _rwx(mode: int) -> str:
    """A mode as ls writes it, without the kind of file."""
    return "".join(
        letter if mode >> bit & 1 else "-" for letter, bit in zip("rwxrwxrwx", range(8, -1, -1), strict=True)
    )


def _octal(mode: int) -> str:
    return f"{mode:o}"


def _symbolic(mode: int) -> str:
    """A mode as chmod reads it."""
    text = _rwx(mode)
    return ",".join(
        f"{who}={text[at : at + 3].replace('-', '')}" for who, at in (("u", 0), ("g", 3), ("o", 6))
    )


def mode_list(draw: Draw, choices: Choices) -> Exercise:
    """Give files the modes of a list."""
    notation, order, selection = choices
    before = random_tree(draw, "share")
    chosen = sorted(before) if selection == 0 else sorted(draw.pick_some(sorted(before), len(before) // 2))
    modes = {
        path: draw.pick(FOLDER_MODES if isinstance(before[path], Folder) else FILE_MODES) for path in chosen
    }
    spell: Callable[[int], str] = (_octal, _rwx, _symbolic)[notation]
    listed = draw.shuffled(modes)
    rows = [(f"{spell(modes[path])} {path}", f"{path}\t{spell(modes[path])}")[order] for path in listed]
    spelled = (
        "in octal",
        "as ls -l writes it without the first character, such as rw-r-----",
        "in chmod's symbolic form, such as u=rw,g=r,o=",
    )[notation]
    ask = (
        "modes.txt holds one line for each of "
        + ("the files and folders", "some files and folders")[selection]
        + " below the folder share: "
        + ("the mode, one space, the path", "the path, one tab, the mode")[order]
        + f"; the mode is written {spelled}. Give each exactly this mode"
        + ("." if selection == 0 else "; whatever is not listed keeps its mode.")
    )
    read = ("while read -r m p", "while IFS='\t' read -r p m")[order]
    convert = (
        "",
        "m=$(printf %s \"$m\" | sed -E 's/(...)(...)(...)/u=\\1,g=\\2,o=\\3/; s/-//g'); ",
        "",
    )[notation]
    gold = f'{read}; do {convert}chmod "$m" "$p"; done < modes.txt'
    after = with_modes(before, modes)
    listed_file = lines_file(rows)
    return Exercise(
        ask, {**before, "modes.txt": listed_file}, {**after, "modes.txt": listed_file}, gold, whole=("share",)
    )


def programs(draw: Draw, choices: Choices) -> Exercise:
    """Make programs executable, and only them."""
    sign, reach, report = choices
    before: Tree = {"tools": Folder(0o755), "tools/lib": Folder(0o755)}
    modes: dict[str, int] = {}
    hits: list[str] = []
    for number, word in enumerate(words(draw, draw.between(12, 16))):
        is_program = draw.chance(45)
        head = (
            draw.pick(("#!/bin/sh", "#!/usr/bin/env python3", "#!/bin/bash"))
            if is_program
            else draw.pick(("# notes", " #!/bin/sh", "text"))
        )
        suffix = (
            (".sh" if is_program else draw.pick((".txt", ".shh", "")))
            if sign == 1
            else draw.pick(("", ".sh", ".txt"))
        )
        path = f"{('tools', 'tools/lib')[number % 2]}/{word}{suffix}"
        mode = draw.pick((0o644, 0o755, 0o600, 0o640, 0o664, 0o744))
        before[path] = File(f"{head}\necho {word}\n".encode(), mode)
        modes[path] = mode & ~0o111 | (0o111, mode >> 2 & 0o111)[reach] * is_program
        if modes[path] != mode:
            hits.append(path)
    told = ("whose first two characters are #!", "whose name ends in .sh")[sign]
    ask = (
        f"Make every file below the folder tools {told} executable for "
        + (
            "everybody (owner, group and others)",
            "exactly those who may read it (of owner, group and others), and not for the rest",
        )[reach]
        + (
            ", and every other file executable for nobody. Reading and writing stay as they are, the modes "
            "of the folders too."
        )
        + (
            (
                " Write to changed.txt the paths of the files whose mode was not right before (such as "
                "tools/lib/x), sorted, one per line."
            )
            if report
            else ""
        )
    )
    test = ('[ "$(head -c 2 "$f")" = "#!" ]', "[[ $f == *.sh ]]")[sign]
    grant = (
        'chmod a+x "$f"',
        'm=0$(stat -c %a "$f"); chmod $(printf %o $((m & ~0111 | m >> 2 & 0111))) "$f"',
    )[reach]
    gold = (
        'export LC_ALL=C; find tools -type f | sort | while IFS= read -r f; do old=$(stat -c %a "$f"); if '
        f'{test}; then {grant}; else chmod a-x "$f"; fi; '
        + ('[ "$(stat -c %a "$f")" = "$old" ] || echo "$f"; done > changed.txt' if report else "done")
    )
    after = with_modes(before, modes)
    if report:
        after["changed.txt"] = lines_file(sorted(hits))
    return Exercise(ask, before, after, gold, whole=("tools",))


def audit(draw: Draw, choices: Choices) -> Exercise:
    """Find modes that are too generous, and repair or report them."""
    fault, layout, repairs = choices
    before = random_tree(
        draw,
        "data",
        files=(0o644, 0o666, 0o664, 0o777, 0o755, 0o600, 0o622),
        folders=(0o755, 0o777, 0o775, 0o700),
    )
    bits, kinds = ((0o002, (File, Folder)), (0o022, (File,)), (0o111, (File,)))[fault]
    hits = sorted(path for path, node in before.items() if isinstance(node, kinds) and mode_of(node) & bits)
    said = (
        (
            "file and folder below the folder data (and data itself) that others (not the owner, not the "
            "group) may write to"
        ),
        "file (not folder) below the folder data that the group or others may write to",
        "file (not folder) below the folder data that anybody (owner, group or others) may execute",
    )[fault]
    deed = (
        "take this permission away from others",
        "take this permission away from the group and from others",
        "take this permission away from everybody",
    )[fault]
    row = (
        "its path, such as data/x",
        "its mode in octal before you change anything (such as 664), one space, its path (such as data/x)",
    )[layout]
    ask = f"Write to audit.txt one line for each {said}: {row}; sorted by path. " + (
        f"Then {deed}, and change no other permission." if repairs else "Do not change any mode."
    )
    find = ("data -perm -o+w", "data -type f -perm /go+w", "data -type f -perm /a+x")[fault]
    change = ("o-w", "go-w", "a-x")[fault]
    shown = ("%p\\n", "%m %p\\n")[layout]
    sort = ("sort", "sort -k2")[layout]
    gold = f"export LC_ALL=C; find {find} -printf '{shown}' | {sort} > audit.txt" + (
        f"; find {find} -exec chmod {change} {{}} +" if repairs else ""
    )
    modes = {path: mode_of(before[path]) & ~bits for path in hits} if repairs else {}
    after = with_modes(before, modes)
    after["audit.txt"] = lines_file([(path, f"{mode_of(before[path]):o} {path}")[layout] for path in hits])
    return Exercise(ask, before, after, gold, whole=("data",))


def inventory(draw: Draw, choices: Choices) -> Exercise:
    """Report all modes without changing any."""
    notation, only, order = choices
    before = random_tree(draw, "site")
    picked = {
        path: node for path, node in before.items() if only == 0 or isinstance(node, (File, Folder)[only - 1])
    }
    spell: Callable[[int], str] = (_octal, _rwx)[notation]
    rows: Mapping[str, str] = {path: spell(mode_of(node)) for path, node in picked.items()}
    ranked = sorted(rows) if order == 0 else sorted(rows, key=lambda path: (rows[path], path))
    said = (
        "file and folder below the folder site, and for site itself",
        "file below the folder site",
        "folder below the folder site, and for site itself",
    )[only]
    ask = (
        f"Write to modes.txt one line for each {said}: its mode "
        + ("in octal (such as 640)", "as ls -l writes it without the first character (such as rw-r-----)")[
            notation
        ]
        + ", one space, its path (such as site/x); "
        + ("sorted by path", "sorted by mode (as text), those with the same mode by path")[order]
        + ". Change nothing."
    )
    kind = ("", "-type f ", "-type d ")[only]
    shown = ("%m %p\\n", "%M %p\\n")[notation]
    cut = ("", " | cut -c2-")[notation]
    sort = ("sort -k2", "sort -k1,1 -k2")[order]
    gold = f"export LC_ALL=C; find site {kind}-printf '{shown}'{cut} | {sort} > modes.txt"
    after: Tree = {
        **with_modes(before, {}),
        "modes.txt": lines_file([f"{rows[path]} {path}" for path in ranked]),
    }
    return Exercise(ask, before, after, gold, whole=("site",))


def copy_modes(draw: Draw, choices: Choices) -> Exercise:
    """Give a copy the modes of its original."""
    missing, folders, reference = choices
    original = random_tree(draw, "origin")
    copy: Tree = {}
    modes: dict[str, int] = {}
    for path, node in original.items():
        if draw.chance(15) and isinstance(node, File):
            continue
        target = "copy" + path.removeprefix("origin")
        is_folder = isinstance(node, Folder)
        copy[target] = (
            Folder(0o755) if is_folder else File(draw.pick((b"a\n", b"b\n")), draw.pick(FILE_MODES))
        )
        if not (is_folder and folders == 1):
            modes[target] = mode_of(node)
    for word in words(draw, 3):
        path = f"copy/{word}.extra"
        copy[path] = File(f"{word}\n".encode(), draw.pick(FILE_MODES))
        if missing == 1:
            modes[path] = 0o600
    source = original if reference == 0 else {}
    before: Tree = {**source, **copy}
    if reference == 1:
        before["origin.txt"] = lines_file(listing(original, draw))
    template = (
        "the folder origin",
        "origin.txt, one line for each with its mode in octal, one space and its path,",
    )[reference]
    ask = (
        f"The files {'and folders ' if folders == 0 else ''}below the folder copy"
        + (" (and copy itself)" if folders == 0 else "")
        + f" have lost their modes. Give each of them the mode of its namesake in {template} "
        + (
            "(copy/a/b has that of origin/a/b). "
            if reference == 0
            else "where origin/a/b stands for copy/a/b. "
        )
        + (
            "What has no namesake keeps its mode"
            if missing == 0
            else "Files that have no namesake get mode 600"
        )
        + (
            ", and so do folders"
            if folders == 1 and missing == 0
            else "; folders keep their modes"
            if folders == 1
            else ""
        )
        + ". Change no contents."
    )
    kind = ("", " -type f")[folders]
    lookup = (
        'if [ -e "origin${p#copy}" ]; then chmod --reference="origin${p#copy}" "$p"',
        (
            'm=$(awk -v p="origin${p#copy}" \'$2 == p {print $1}\' origin.txt); if [ -n "$m" ]; then '
            'chmod "$m" "$p"'
        ),
    )[reference]
    gold = (
        f"find copy{kind} | while IFS= read -r p; do {lookup}; "
        + ("fi; done", 'else chmod 600 "$p"; fi; done')[missing]
    )
    return Exercise(ask, before, with_modes(before, modes), gold, whole=("copy", "origin")[: 2 - reference])


FAMILY = Family(
    "permissions",
    (
        Kind("lock_release", 1, (3, 2, 2), rules.lock_release),
        Kind("audit", 2, (3, 2, 2), audit),
        Kind("labels", 3, (2, 2, 2), rules.labels),
        Kind("programs", 2, (2, 2, 2), programs),
        Kind("shared_folder", 3, (2, 2, 2), rules.shared_folder),
        Kind("inventory", 1, (2, 3, 2), inventory),
        Kind("key_store", 2, (2, 2, 2), rules.key_store),
        Kind("copy_modes", 3, (2, 2, 2), copy_modes),
        # chmod reads the octal and the symbolic form alike, and no command depends on which files are listed.
        Kind("mode_list", 1, (3, 2, 2), mode_list, lambda choices: (choices[0] == 1, choices[1])),
        Kind("masks", 2, (2, 2, 2), rules.masks),
    ),
)
