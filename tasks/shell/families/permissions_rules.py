"""Permissions, continued: modes that follow from rules; and trees of files with modes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ors_server_tasks.shell.exercise import Exercise, File, Folder, Node, Tree, lines_file, text_file
from ors_server_tasks.shell.vocabulary import DEPARTMENTS, HOSTS, SERVICES, USERS, paragraph, sentence, words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ors_server_tasks.shell.draw import Draw
    from ors_server_tasks.shell.exercise import Choices

FILE_MODES = (0o600, 0o640, 0o644, 0o660, 0o664, 0o666, 0o700, 0o750, 0o755, 0o444, 0o400, 0o604, 0o711)
FOLDER_MODES = (0o700, 0o750, 0o755, 0o770, 0o775, 0o777, 0o711, 0o555)
"""Modes of files that their owner can read, and of folders that their owner can look into."""


def mode_of(node: Node) -> int:
    """Return the mode of a file or folder that has one.

    Raises:
        TypeError: It has no mode.
    """
    if isinstance(node, (File, Folder)) and node.mode is not None:
        return node.mode
    raise TypeError(f"{node!r} has no mode")


def with_modes(tree: Tree, modes: Mapping[str, int]) -> Tree:
    """Return a tree with the modes of some paths replaced."""
    result: Tree = {}
    for path, node in tree.items():
        if path not in modes:
            result[path] = node
        elif isinstance(node, File):
            result[path] = File(node.content, modes[path], node.mtime)
        else:
            result[path] = Folder(modes[path])
    return result


def random_tree(
    draw: Draw,
    top: str,
    *,
    files: Sequence[int] = FILE_MODES,
    folders: Sequence[int] = (0o755, 0o775, 0o700, 0o777),
) -> Tree:
    """Draw a tree with modes; every folder of it is an entry."""
    places = [top, *(f"{top}/{name}" for name in draw.pick_some(SERVICES, 3))]
    places.append(f"{places[-1]}/{draw.pick(HOSTS)}")
    tree: Tree = {folder: Folder(draw.pick(folders)) for folder in places}
    for word in words(draw, draw.between(12, 18)):
        name = f"{word}{draw.pick(('', '.txt', '.sh', '.key'))}"
        tree[f"{draw.pick(places)}/{name}"] = File(f"{word}\n{paragraph(draw, 1)}".encode(), draw.pick(files))
    return tree


def listing(tree: Tree, draw: Draw) -> list[str]:
    """Lines of octal mode and path, in random order."""
    return draw.shuffled(f"{mode_of(node):o} {path}" for path, node in sorted(tree.items()))


def labels(draw: Draw, choices: Choices) -> Exercise:
    """Set modes by what files say of themselves."""
    position, default, folders = choices
    levels: dict[str, int] = dict(
        zip(
            draw.pick_some(("public", "internal", "secret", "draft", "final"), 3),
            draw.pick_some((0o600, 0o640, 0o644, 0o660, 0o440), 3),
            strict=True,
        )
    )
    before: Tree = {"docs": Folder(0o755)}
    modes: dict[str, int] = {}
    for name in draw.pick_some(DEPARTMENTS, 3):
        before[f"docs/{name}"] = Folder(draw.pick((0o777, 0o775)))
        if folders == 1:
            modes[f"docs/{name}"] = 0o750
    places = sorted(before)
    for word in words(draw, draw.between(12, 16)):
        path = f"{draw.pick(places)}/{word}.txt"
        label = draw.pick((*levels, *levels, ""))
        body = [sentence(draw) for _ in range(3)]
        body[1] += f" label: {draw.pick(tuple(levels))}"
        if label:
            body.insert((0, len(body))[position], f"label: {label}")
        mode = draw.pick((0o644, 0o666, 0o600, 0o755))
        before[path] = File("".join(f"{line}\n" for line in body).encode(), mode)
        modes[path] = levels.get(label, 0o400 if default == 1 else mode)
    table = "; ".join(f"{name}: {mode:o}" for name, mode in levels.items())
    ask = (
        f"Each file below the folder docs may carry a label: its {('first', 'last')[position]} line is then "
        f"exactly 'label: NAME'. Give the files the modes of their labels ({table}). Files without one of "
        f"these labels in their {('first', 'last')[position]} line "
        + ("keep their mode. ", "get mode 400. ")[default]
        + ("Folders keep their modes.", "The folders in docs, but not docs itself, get mode 750.")[folders]
    )
    cases = " ".join(f'"label: {name}") chmod {mode:o} "$f";;' for name, mode in levels.items())
    rest = ("", ' *) chmod 400 "$f";;')[default]
    gold = (
        f"find docs -type f | while IFS= read -r f; do case $({('head', 'tail')[position]} -n 1 "
        f'"$f") in {cases}{rest} esac; done'
    ) + ("", "; find docs -mindepth 1 -type d -exec chmod 750 {} +")[folders]
    return Exercise(ask, before, with_modes(before, modes), gold, whole=("docs",))


def shared_folder(draw: Draw, choices: Choices) -> Exercise:
    """Set up a folder that a group shares, with the special bits."""
    bit, private, executable = choices
    before = random_tree(draw, "team")
    for word in words(draw, 2):
        before[f"team/{word}.key"] = File(f"{word}\n".encode(), 0o644)
    base = (0o2770, 0o1777)[bit]
    modes: dict[str, int] = {}
    for path, node in before.items():
        mode = mode_of(node)
        if isinstance(node, Folder):
            modes[path] = base
        else:
            wanted = (0o660, 0o664)[bit] | (0o110 if executable and mode & 0o100 else 0)
            modes[path] = 0o600 if private and path.endswith(".key") else wanted
    ask = (
        "Set the modes of the folder team and of everything below it: folders (team too) "
        + (
            "2770 (all for owner and group, nothing for others, and the set-group-ID bit)",
            "1777 (all for everybody, and the sticky bit)",
        )[bit]
        + f", files {('660', '664')[bit]}"
        + (f"; but files that their owner may execute now get {('770', '774')[bit]}" if executable else "")
        + ("; but files whose names end in .key get 600 in any case" if private else "")
        + "."
    )
    plain = ("660", "664")[bit]
    gold = (
        f"find team -type d -exec chmod {base:o} {{}} +; "
        + (
            f"find team -type f -perm -u+x -exec chmod {plain[0]}7{plain[2]} {{}} + -exec chmod u+x {{}} +; "
            f"find team -type f ! -perm -u+x -exec chmod {plain} {{}} +"
            if executable
            else f"find team -type f -exec chmod {plain} {{}} +"
        )
        + ("; find team -type f -name '*.key' -exec chmod 600 {} +" if private else "")
    )
    return Exercise(ask, before, with_modes(before, modes), gold, whole=("team",))


def key_store(draw: Draw, choices: Choices) -> Exercise:
    """Put a folder of keys in the order that ssh wants."""
    rule, backup, report = choices
    before: Tree = {"ssh": Folder(0o755), "ssh/keys": Folder(0o777)}
    modes = {"ssh": 0o700, "ssh/keys": 0o700}
    for word in words(draw, draw.between(5, 7)):
        folder = draw.pick(("ssh", "ssh/keys"))
        private = f"-----BEGIN OPENSSH PRIVATE KEY-----\n{word * 8}\n-----END OPENSSH PRIVATE KEY-----\n"
        name = f"id_{word}" if rule == 0 else word
        before[f"{folder}/{name}"] = File(private.encode(), draw.pick((0o644, 0o600, 0o666, 0o640)))
        modes[f"{folder}/{name}"] = 0o600
        if draw.chance(70):
            before[f"{folder}/{name}.pub"] = File(
                f"ssh-ed25519 {word * 4} {draw.pick(USERS)}\n".encode(), draw.pick((0o600, 0o666, 0o755))
            )
            modes[f"{folder}/{name}.pub"] = 0o644
    for name in ("config", "authorized_keys", "known_hosts"):
        before[f"ssh/{name}"] = text_file(f"# {sentence(draw, 2, 4)}\n", draw.pick((0o664, 0o644, 0o600)))
        modes[f"ssh/{name}"] = 0o644 if name == "known_hosts" else 0o600
    if backup == 1:
        before["ssh/old"] = Folder(0o755)
        before["ssh/old/id_backup"] = File(b"-----BEGIN OPENSSH PRIVATE KEY-----\nold\n", 0o644)
        modes.update({"ssh/old": 0o700, "ssh/old/id_backup": 0o400})
    which = (
        "whose names begin with id_ and do not end in .pub",
        "whose first line is -----BEGIN OPENSSH PRIVATE KEY-----",
    )[rule]
    ask = (
        "Put the modes below the folder ssh right: folders (ssh too) 700; private keys, which are the "
        f"files {which}, 600; public keys (*.pub) 644; config and authorized_keys 600; known_hosts 644."
        + (" Private keys below ssh/old get 400 instead." if backup else "")
        + (
            (
                " Write to loose.txt the paths (such as ssh/x) of the private keys that the group or "
                "others could read or write before, sorted, one per line."
            )
            if report
            else ""
        )
    )
    private_files = (
        "find ssh -type f -name 'id_*' ! -name '*.pub'",
        (
            "find ssh -type f -exec awk 'FNR == 1 && /^-----BEGIN OPENSSH PRIVATE KEY-----$/ {print "
            "FILENAME}' {} \\;"
        ),
    )[rule]
    gold = (
        f"export LC_ALL=C; {private_files} | sort > .k; "
        + ("xargs -I F find F -perm /066 < .k > loose.txt; " if report else "")
        + "find ssh -type d -exec chmod 700 {} +; xargs chmod 600 < .k; find ssh -name '*.pub' -exec "
        "chmod 644 {} +; chmod 600 ssh/config ssh/authorized_keys; chmod 644 ssh/known_hosts; "
        + ("grep '^ssh/old/' .k | xargs chmod 400; " if backup else "")
        + "rm .k"
    )
    after = with_modes(before, modes)
    if report:
        keys = [
            path
            for path, mode in modes.items()
            if mode in {0o600, 0o400} and path not in {"ssh/config", "ssh/authorized_keys"}
        ]
        after["loose.txt"] = lines_file(sorted(path for path in keys if mode_of(before[path]) & 0o066))
    return Exercise(ask, before, after, gold, whole=("ssh",))


def lock_release(draw: Draw, choices: Choices) -> Exercise:
    """Take write permission away, with exceptions."""
    who, exception, folders = choices
    before = random_tree(draw, "release")
    before["release/log"] = Folder(0o775)
    before["release/log/run.log"] = File(b"started\n", 0o664)
    before["release/log/old.log"] = File(b"stopped\n", 0o666)
    bits = (0o222, 0o022, 0o002)[who]
    modes: dict[str, int] = {}
    for path, node in before.items():
        if exception == 1 and (path == "release/log" or path.startswith("release/log/")):
            continue
        if isinstance(node, Folder) and folders == 1:
            continue
        modes[path] = mode_of(node) & ~bits
    name = (
        "from everybody (owner, group and others)",
        "from the group and from others",
        "from others (not from the group)",
    )[who]
    ask = (
        f"Take the permission to write away {name} for "
        + (
            "every file and every folder below the folder release, and release itself",
            "every file, but no folder, below the folder release",
        )[folders]
        + (", except for release/log and everything in it" if exception else "")
        + ". All other permissions stay as they are."
    )
    change = ("a-w", "go-w", "o-w")[who]
    kind = ("", "-type f ")[folders]
    skip = ("", "-path release/log -prune -o ")[exception]
    gold = (
        f"find release -depth {kind}-exec chmod {change} {{}} \\;"
        if exception == 0
        else f"find release {skip}{kind}-print0 | tac -s '' | xargs -0 chmod {change}"
    )
    gold = gold.replace("tac -s ''", "sort -rz")
    return Exercise(ask, before, with_modes(before, modes), gold, whole=("release",))


def masks(draw: Draw, choices: Choices) -> Exercise:
    """Set modes as a umask would have made them."""
    source, executable, inner = choices
    before: Tree = {"homes": Folder(0o755)}
    modes: dict[str, int] = {}
    table: dict[str, int] = {}
    for user in draw.pick_some(USERS, draw.between(3, 4)):
        mask = table[user] = draw.pick((0o022, 0o027, 0o077, 0o002, 0o026))
        places = [f"homes/{user}", f"homes/{user}/bin", f"homes/{user}/doc"]
        for path in places:
            before[path] = Folder(draw.pick((0o755, 0o700, 0o777)))
        modes |= dict.fromkeys(places[inner:], 0o777 & ~mask)
        for word in words(draw, draw.between(3, 5)):
            path, mode = f"{draw.pick(places)}/{word}", draw.pick((0o600, 0o644, 0o755, 0o666, 0o700))
            before[path] = File(f"{user} {word}\n".encode(), mode)
            modes[path] = (0o777 if executable and mode & 0o100 else 0o666) & ~mask
        if source == 1:
            before[f"homes/{user}/.umask"] = File(f"{mask:03o}\n".encode(), 0o644)
            modes[f"homes/{user}/.umask"] = 0o666 & ~mask
    told = (
        "masks.txt holds a line for each of them: its name, one space, a umask in octal",
        "each of them has a file .umask that holds a umask in octal",
    )[source]
    ask = (
        f"The folders in the folder homes belong to different people; {told}. Give everything in such a "
        f"folder, {('and the folder itself', 'but not the folder itself')[inner]}, the mode that it would "
        "have if it were made anew under this umask: folders 777 without the bits of the mask, files "
        + ("666 without them", "666 without them, or 777 without them if their owner may execute them now")[
            executable
        ]
        + (" (.umask too)" if source else "")
        + ". The folder homes itself stays as it is."
    )
    read = ("while read -r u m; do", 'for d in homes/*; do u=${d#homes/}; m=$(cat "$d/.umask");')[source]
    end = ("done < masks.txt", "done")[source]
    gold = (
        f"{read} d=$(printf %o $((0777 & ~0$m))); f=$(printf %o $((0666 & ~0$m))); "
        + (
            'find "homes/$u" -type f -perm -u+x -print0 > .x; find "homes/$u" -type f -exec chmod $f {} +; '
            "xargs -0 -r chmod $d < .x; rm .x; "
            if executable
            else 'find "homes/$u" -type f -exec chmod $f {} +; '
        )
        + f'find "homes/$u" -mindepth {inner} -depth -type d -exec chmod $d {{}} \\; ; {end}'
    )
    if source == 0:
        before["masks.txt"] = lines_file([f"{user} {mask:03o}" for user, mask in table.items()])
    return Exercise(ask, before, with_modes(before, modes), gold, whole=("homes",))
