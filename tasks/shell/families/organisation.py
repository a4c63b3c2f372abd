"""File organisation: sorting, renaming, comparing and bundling files."""

from __future__ import annotations

from ors_server_tasks.shell.draw import Draw
from ors_server_tasks.shell.exercise import (
    EPOCH,
    Choices,
    Exercise,
    Family,
    File,
    Folder,
    Kind,
    Link,
    Tree,
    changed,
    text_file,
    without,
)
from ors_server_tasks.shell.families import organisation_sets as sets
from ors_server_tasks.shell.vocabulary import EXTENSIONS, PRODUCTS, SERVICES, WORDS, day, paragraph, words

_DAY = 86_400
_GROUPS = {
    "images": ("png", "jpg"),
    "texts": ("txt", "md", "pdf"),
    "data": ("csv", "json", "yml"),
    "programs": ("py", "sh"),
}


def by_extension(draw: Draw, choices: Choices) -> Exercise:
    """Sort files into folders by what their names end in."""
    grouping, rest, nested = choices
    before: Tree = {}
    after: Tree = {}
    for word in words(draw, draw.between(16, 24)):
        extension = draw.pick((*EXTENSIONS, "", "tar.gz"))
        shown = extension.upper() if draw.chance(25) else extension
        name = f"{word}.{shown}" if shown else word
        folder = f"inbox/{draw.pick(WORDS[:4])}" if nested == 1 and draw.chance(60) else "inbox"
        last = extension.rpartition(".")[2]
        node = text_file(f"{word}\n{paragraph(draw, draw.between(1, 3))}")
        before[f"{folder}/{name}"] = node
        group = next((name for name, members in _GROUPS.items() if last in members), "") if grouping else last
        target = f"sorted/{group}" if group else ("sorted/other", folder)[rest]
        after[f"{target}/{name}"] = node
    table = "; ".join(f"{name}: {', '.join(members)}" for name, members in _GROUPS.items())
    ask = (
        f"Move {'all files in inbox and the folders below it' if nested else 'all files in inbox'} into "
        "folders below a new folder sorted, by extension: the part of the name after its last dot, in "
        "lower case. The names of the files stay as they are. "
        + (
            f"The folders and their extensions are: {table}. "
            if grouping
            else "The folder has the extension's name, as in sorted/txt. "
        )
        + (
            "Files with any other extension, and those without one, "
            if grouping
            else "Files with no extension (no dot in the name) "
        )
        + ("go to sorted/other." if rest == 0 else "stay where they are.")
        + " Make only the folders that are needed"
        + ("; folders of inbox that become empty may stay or go." if nested else ".")
    )
    groups = " ".join(f"{'|'.join(members)}) g={name};;" for name, members in _GROUPS.items())
    gold = (
        f"find inbox {'' if nested else '-maxdepth 1 '}-type f | while IFS= read -r f; do n=${{f##*/}}; g=; "
        'case $n in *.*) g=$(printf %s "${n##*.}" | tr A-Z a-z);; esac; '
        + (f"case $g in {groups} *) g=;; esac; " if grouping else "")
        + ("g=${g:-other}; " if rest == 0 else '[ -n "$g" ] || continue; ')
        + 'mkdir -p "sorted/$g"; mv "$f" "sorted/$g/$n"; done'
    )
    return Exercise(ask, before, after, gold, whole=("inbox", "sorted"))


def by_date(draw: Draw, choices: Choices) -> Exercise:
    """Sort files into folders by the date in their names."""
    spelling, layout, renames = choices
    before: Tree = {}
    after: Tree = {}
    for word in words(draw, draw.between(14, 20)):
        year, month, date = day(draw, draw.between(2021, 2025)).split("-")
        stem = (
            f"{year}-{month}-{date}_{word}",
            f"{word}_{date}.{month}.{year}",
            f"IMG{year}{month}{date}{word}",
        )[spelling]
        node = text_file(paragraph(draw, 2))
        before[f"photos/{stem}.jpg"] = node
        folder = (f"{year}/{month}", f"{year}-{month}", year)[layout]
        after[f"photos/{folder}/{(stem, word)[renames]}.jpg"] = node
    for word in draw.pick_some(PRODUCTS, 3):
        before[f"photos/{word}.txt"] = after[f"photos/{word}.txt"] = text_file(paragraph(draw, 1))
    form = ("2023-07-09_word.jpg", "word_09.07.2023.jpg (day, month, year)", "IMG20230709word.jpg")[spelling]
    example = f"photos/{('2023/07', '2023-07', '2023')[layout]}/"
    stem = ("2023-07-09_word", "word_09.07.2023", "IMG20230709word")[spelling]
    ask = (
        f"The folder photos holds pictures with a date in their names, in the form {form}, and a few other "
        "files. Move each picture into a folder by its date: the one above to "
        f"{example}{(stem, 'word')[renames]}.jpg"
        + (", so the date and whatever joins it to the word disappears from the name" if renames else "")
        + ". Leave the other files where they are."
    )
    pattern = (
        r"^([0-9]{4})-([0-9]{2})-[0-9]{2}_([a-z]+)$",
        r"^([a-z]+)_[0-9]{2}\.([0-9]{2})\.([0-9]{4})$",
        r"^IMG([0-9]{4})([0-9]{2})[0-9]{2}([a-z]+)$",
    )[spelling]
    places = ((1, 2, 3), (3, 2, 1), (1, 2, 3))[spelling]
    year, month, word = (f"${{BASH_REMATCH[{group}]}}" for group in places)
    folder = (f"{year}/{month}", f"{year}-{month}", year)[layout]
    gold = (
        f"cd photos; for f in *.jpg; do s=${{f%.jpg}}; [[ $s =~ {pattern} ]] || continue; "
        f'mkdir -p "{folder}"; mv "$f" "{folder}/{("$s", word)[renames]}.jpg"; done'
    )
    return Exercise(ask, before, after, gold, whole=("photos",))


def number_files(draw: Draw, choices: Choices) -> Exercise:
    """Rename files by their place in an order."""
    order, direction, prefix_choice = choices
    names = draw.shuffled(f"{word}.{draw.pick(('jpg', 'png'))}" for word in words(draw, draw.between(11, 18)))
    times = draw.pick_some(range(EPOCH - 900 * _DAY, EPOCH, 3601), len(names))
    sizes = draw.pick_some(range(40, 400), len(names))
    nodes = {
        name: File(b"x" * (size - 1) + b"\n", mtime=time)
        for name, time, size in zip(names, times, sizes, strict=True)
    }
    keys: tuple[dict[str, int], dict[str, int], dict[str, int]] = (
        {name: node.mtime for name, node in nodes.items()},
        {name: len(node.content) for name, node in nodes.items()},
        {name: position for position, name in enumerate(sorted(nodes))},
    )
    ranked = sorted(nodes, key=lambda name: keys[order][name], reverse=direction == 1)
    prefix, width = (draw.pick(WORDS) + "_", "shot")[prefix_choice], (3, 2)[prefix_choice]
    before: Tree = {f"album/{name}": node for name, node in nodes.items()}
    after: Tree = {
        f"album/{prefix}{number:0{width}d}.{name.rpartition('.')[2]}": nodes[name]
        for number, name in enumerate(ranked, 1)
    }
    text = (
        (
            "from the least recently modified to the most recently modified",
            "from the most recently modified to the least",
        ),
        ("from the smallest to the largest", "from the largest to the smallest"),
        ("sorted by name", "sorted by name in reverse (the greatest first)"),
    )[order][direction]
    ask = (
        f"Rename the files in the folder album to {prefix}{1:0{width}d}.jpg, {prefix}{2:0{width}d}.png and "
        f"so on: numbered from 1 with {width} digits, {text}; each keeps its extension (.jpg or .png), and "
        "the numbers run through both."
    )
    source = ("%T@ %f", "%s %f", "%f %f")[order]
    sort = ("sort -k1,1n", "sort -k1,1n", "sort -k1,1")[order] + ("", "r")[direction]
    gold = (
        f"cd album; i=0; find . -type f -printf '{source}\\n' | LC_ALL=C {sort} | while read -r _ f; do "
        "i=$((i+1)); "
        f'mv "$f" "$(printf \'{prefix}%0{width}d\' $i).${{f##*.}}"; done'
    )
    return Exercise(ask, before, after, gold, whole=("album",))


def flatten(draw: Draw, choices: Choices) -> Exercise:
    """Bring files of nested folders into one folder."""
    joiner, only, keeps = choices
    sign = ("_", "--", "+")[joiner]
    before: Tree = {}
    for word in words(draw, draw.between(10, 15)):
        folders = draw.pick_some(SERVICES, draw.between(1, 3))
        before["/".join(("tree", *folders, f"{word}.{draw.pick(('txt', 'csv', 'log'))}"))] = text_file(
            f"{word}\n{paragraph(draw, 2)}"
        )
    before["tree/readme.txt"] = text_file(paragraph(draw, 3))
    flat_files: Tree = {
        "flat/" + path.removeprefix("tree/").replace("/", sign): node
        for path, node in before.items()
        if only == 0 or path.endswith(".txt")
    }
    gone = [path for path in before if only == 0 or path.endswith(".txt")] if keeps == 1 else []
    after = changed(before, flat_files, tuple(gone))
    which = ("every file", "every file whose name ends in .txt")[only]
    verb = ("Copy", "Move")[keeps]
    ask = (
        f"{verb} {which} below the folder tree into a new folder flat. The new name is the path below tree "
        f"with each slash replaced by '{sign}': tree/a/b/c.txt becomes flat/a{sign}b{sign}c.txt. "
        + (
            "The folder tree stays as it is."
            if keeps == 0
            else "Whatever is not moved stays, empty folders may stay or go."
        )
    )
    match = ("", "-name '*.txt' ")[only]
    gold = (
        f"mkdir flat; find tree -type f {match}| while IFS= read -r f; do n=${{f#tree/}}; "
        f'{("cp", "mv")[keeps]} "$f" "flat/${{n//\\//{sign}}}"; done'
    )
    return Exercise(ask, before, after, gold, whole=("flat",))


def latest_links(draw: Draw, choices: Choices) -> Exercise:
    """Point a link at the newest release of each program."""
    scheme, target_choice, stale = choices
    before: Tree = {}
    after: Tree = {}
    for service in draw.pick_some(SERVICES, draw.between(4, 6)):
        numbers = draw.pick_some(range(1, 25), draw.between(3, 6))
        if scheme == 0:
            releases = [
                (f"{draw.between(1, 2)}.{number}.{draw.between(0, 12)}", number) for number in numbers
            ]
            best = max(
                (release for release, _ in releases), key=lambda text: [int(part) for part in text.split(".")]
            )
        else:
            releases = [(f"build-{number}", number) for number in numbers]
            best = f"build-{max(numbers)}"
        for release, number in releases:
            before[f"apps/{service}/{release}/info.txt"] = text_file(f"{service} {release} {number}\n")
        if stale == 1:
            before[f"apps/{service}/{('current', 'old')[draw.below(2)]}"] = Link(
                draw.pick(("gone", f"{service}-missing"))
            )
        path, target = ((f"apps/{service}/current", best), (f"links/{service}", f"../apps/{service}/{best}"))[
            target_choice
        ]
        after[path] = Link(target)
    tree: Tree = {path: node for path, node in before.items() if not isinstance(node, Link)}
    where = (
        "In each of them make a symbolic link current",
        "For each of them make a symbolic link with the program's name in a new folder links",
    )[target_choice]
    target = ("the release's name alone, such as 1.4.0", "a relative path, such as ../apps/auth/1.4.0")[
        target_choice
    ]
    ask = (
        "Below apps, each program has a folder with its releases, named "
        f"{('by version, such as 1.10.2', 'by number, such as build-12')[scheme]}. {where} that points to "
        f"the newest release: {('1.10.0 is newer than 1.9.3', 'build-10 is newer than build-9')[scheme]}, "
        "since numbers are compared as numbers. The link's text is "
        f"{target.replace('1.4.0', ('1.4.0', 'build-14')[scheme])}."
        + (" First remove the symbolic links that are there: all of them are broken." if stale else "")
    )
    make = ('ln -s "$v" "apps/$p/current"', 'ln -s "../apps/$p/$v" "links/$p"')[target_choice]
    gold = (
        ("find apps -type l -delete; " if stale else "")
        + ("", "mkdir links; ")[target_choice]
        + f'for d in apps/*/; do p=${{d#apps/}}; p=${{p%/}}; v=$(ls "$d" | sort -V | tail -n 1); {make}; done'
    )
    return Exercise(ask, before, {**tree, **after}, gold, whole=("apps", "links")[: target_choice + 1])


def skeleton(draw: Draw, choices: Choices) -> Exercise:
    """Build the folders of an outline."""
    outline, fill, marker = choices
    tops = draw.pick_some(WORDS[:40], 4)
    folders: list[str] = []
    for top in tops:
        middle = draw.pick_some(SERVICES, draw.between(1, 3))
        folders += [top, *(f"{top}/{name}" for name in middle)]
        folders += [f"{top}/{middle[0]}/{name}" for name in draw.pick_some(PRODUCTS, draw.between(0, 2))]
    if outline == 0:
        rows, said = (
            [f"{path}/" for path in draw.shuffled(folders)],
            "one path of a folder per line, in no order",
        )
    else:
        folders.sort()
        rows = ["  " * path.count("/") + path.rpartition("/")[2] for path in folders]
        said = (
            "one name of a folder per line; a folder stands below the nearest line above it that has two "
            "spaces less"
        )
    leaves = [path for path in folders if not any(other.startswith(f"{path}/") for other in folders)]
    chosen = (leaves, folders)[fill]
    name = (".gitkeep", "README.md")[marker]
    before: Tree = {"outline.txt": text_file("".join(f"{row}\n" for row in rows))}
    after: Tree = {**before, "project": Folder(), **{f"project/{path}": Folder() for path in folders}}
    for path in chosen:
        after[f"project/{path}/{name}"] = text_file("" if marker == 0 else f"# {path.rpartition('/')[2]}\n")
    ask = (
        f"outline.txt describes a tree of folders: {said}. Make all of them below a new folder project. "
        f"{('In each folder that has no folders in it', 'In each of these folders')[fill]} (not in project "
        "itself) make "
        + (
            "an empty file .gitkeep."
            if marker == 0
            else "a file README.md with one line: #, one space, the folder's own name (without the path)."
        )
    )
    paths = (
        "sed 's:/$::' outline.txt",
        (
            'awk \'{match($0, /^ */); d = RLENGTH / 2; sub(/^ */, ""); p[d] = $0; s = p[0]; for (i = 1; i '
            '<= d; i++) s = s "/" p[i]; print s}\' outline.txt'
        ),
    )[outline]
    leaf = ('[ -z "$(find "$d" -mindepth 1 -type d)" ] || continue; ', "")[fill]
    write = (': > "$d/.gitkeep"', 'echo "# ${d##*/}" > "$d/README.md"')[marker]
    gold = (
        f"{paths} | sed 's:^:project/:' | tr '\\n' '\\0' | xargs -0 mkdir -p; find project -mindepth 1 "
        f"-type d | while IFS= read -r d; do {leaf}{write}; done"
    )
    return Exercise(ask, before, after, gold, whole=("project",))


FAMILY = Family(
    "file_organisation",
    (
        Kind("by_extension", 2, (2, 2, 2), by_extension),
        Kind("number_files", 1, (3, 2, 2), number_files),
        Kind("duplicates", 3, (3, 2, 2), sets.duplicates, without(2)),
        Kind("by_date", 2, (3, 3, 2), by_date),
        Kind("latest_links", 2, (2, 2, 2), latest_links, without(0)),
        Kind("bundle", 2, (2, 3, 2), sets.bundle),
        Kind("flatten", 1, (3, 2, 2), flatten),
        Kind("prune", 1, (4, 2), sets.prune),
        Kind("mirror", 3, (2, 2, 2), sets.mirror),
        Kind("skeleton", 2, (2, 2, 2), skeleton),
    ),
)
