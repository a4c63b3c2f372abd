"""Images as roots: how fast a session starts on one beside a plain session, what it holds, and unpacking."""

import asyncio
import hashlib
import io
import json
import math
import os
import platform
import random
import shutil
import statistics
import subprocess
import tarfile
import tempfile
import time
from pathlib import Path

import uvloop

from bench import bare_shells
from bench.report import Goal, Row
from ors_server.images.image_cache import ImageCache
from ors_server.sandboxes.base import Limits, SandboxRoot
from ors_server.sandboxes.choose import BackendChoice, BackendRequest, choose

PROGRAMS = ("bash", "sh", "cat", "ls", "true")
FILES, FILE_BYTES = 6_000, 20_000
"""Further files of the image: with these it is about as large as a minimal distribution."""
CROWD = 100
START = Goal("ratio", most=1.5)
HELD = Goal("ours", most=3.5)
"""MiB of the machine's memory per session."""
UNPACK = Goal("ratio", most=2.0)
"""Processor time; wall-clock time is beside it, because other work on the machine changes it more."""
SMALL_FILES, MEDIAN_BYTES, SPREAD = 20_000, 1_400, 1.8
"""Files of a layer, and their lengths: log-normal, about as in /usr/lib/python3 and /usr/share of Debian."""
LARGE_FILES, LARGE_BYTES = 6, 16 << 20


def measure(rounds: int = 40, unpack_rounds: int = 3) -> list[Row]:
    """Measure bubblewrap on this machine, with an image that is made of its own programs."""
    with tempfile.TemporaryDirectory(prefix="ors-bench-images-") as folder:
        top = Path(folder)
        image = ImageCache(top / "cache").add(_write_image(top), "bench:1")
        unpacking = _measure_unpacking(top, unpack_rounds)
        return [*uvloop.run(_measure_sessions(SandboxRoot.of_image(image.as_tree()), rounds)), *unpacking]


def _measure_unpacking(top: Path, rounds: int) -> list[Row]:
    """Unpack a layer of files as long as those of a distribution, in turns with `tar -x`; medians count."""
    lengths = random.Random(0)  # noqa: S311  (the same files in each run)
    layer = top / "files.tar"
    content = lengths.randbytes(LARGE_BYTES)
    with tarfile.open(layer, "w") as tar:
        for number in range(SMALL_FILES + LARGE_FILES):
            member = tarfile.TarInfo(f"usr/share/{number // 500}/{number // 20}/{number}.dat")
            member.size = min(LARGE_BYTES, int(lengths.lognormvariate(math.log(MEDIAN_BYTES), SPREAD)))
            if number >= SMALL_FILES:
                member.size = LARGE_BYTES
            tar.addfile(member, io.BytesIO(content[: member.size]))
    archive = _write_archive(top / "files-image.tar", layer)
    seconds: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    for number in range(rounds):
        for is_ours in (True, False):
            folder = top / f"files-{number}-{is_ours}"
            folder.mkdir()
            before, began = os.times(), time.perf_counter()
            if is_ours:
                ImageCache(folder).add(archive, "files:1")
            else:
                subprocess.run(["tar", "-x", "-f", layer, "-C", folder], check=True)  # noqa: S607  (a peer)
            elapsed, after = time.perf_counter() - began, os.times()
            # Own and children's, in user and system mode: one of the two does nothing in a turn.
            seconds[is_ours].append((sum(after[:4]) - sum(before[:4]), elapsed))
            shutil.rmtree(folder)
    name, peer = f"unpack a layer of {SMALL_FILES:,} short files", "tar -x"
    rows: list[Row] = []
    for index, (unit, goal) in enumerate((("ms CPU", UNPACK), ("ms", None))):
        ours, theirs = (
            statistics.median(pair[index] for pair in seconds[is_ours]) * 1000 for is_ours in (True, False)
        )
        rows.append(Row(name, unit, ours, theirs, peer, goal))
    return rows


async def _measure_sessions(root: SandboxRoot, rounds: int) -> list[Row]:
    chosen = await choose(BackendRequest(BackendChoice.BUBBLEWRAP))
    backend = chosen.backend
    try:
        seconds: dict[bool, list[float]] = {True: [], False: []}
        for number in range(rounds + 3):
            for has_image in (True, False):
                began = time.perf_counter()
                sandbox = await backend.start(f"{number}-{has_image}", Limits(), root if has_image else None)
                await sandbox.exec("true")
                if number >= 3:  # noqa: PLR2004  (the first warm the caches)
                    seconds[has_image].append(time.perf_counter() - began)
                await sandbox.aclose()
        ours, peer = (statistics.median(seconds[has_image]) * 1000 for has_image in (True, False))
        crowd = []
        available = bare_shells.available_kib()
        for number in range(CROWD):
            crowd.append(await backend.start(f"crowd-{number}", Limits(), root))
            await crowd[-1].exec("true")
        cached_mib = (available - bare_shells.available_kib()) / CROWD / 1024
        await asyncio.gather(*(sandbox.aclose() for sandbox in crowd))
        plain_crowd = []
        available = bare_shells.available_kib()
        for number in range(CROWD):
            plain_crowd.append(await backend.start(f"plain-{number}", Limits()))
            await plain_crowd[-1].exec("true")
        plain_mib = (available - bare_shells.available_kib()) / CROWD / 1024
        await asyncio.gather(*(sandbox.aclose() for sandbox in plain_crowd))
        return [
            Row("start on a cached image, and true", "ms", ours, peer, "a plain session", START),
            Row(
                f"memory of {CROWD} sessions on one image",
                "MiB each",
                cached_mib,
                plain_mib,
                "plain ones",
                HELD,
            ),
        ]
    finally:
        await chosen.aclose()


def _write_image(top: Path) -> Path:
    """Write an archive of `docker save` with one layer."""
    tree = top / "tree"
    for name in ("usr/bin", "usr/lib", "usr/lib64", "etc", "proc", "dev", "tmp", "root", "opt"):
        (tree / name).mkdir(parents=True)
    for name in ("bin", "lib", "lib64"):
        (tree / name).symlink_to(f"usr/{name}")
    for program in PROGRAMS:
        source = Path(shutil.which(program) or program).resolve()
        shutil.copy2(source, tree / "usr/bin" / program)
        listed = subprocess.run(["ldd", source], capture_output=True, text=True, check=False)  # noqa: S607
        for path in (word for word in listed.stdout.split() if word.startswith("/")):
            target = tree / "usr" / path.removeprefix("/usr").lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(Path(path).resolve(), target)
    for number in range(FILES):
        file = tree / "opt" / str(number // 100) / f"{number}.dat"
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(os.urandom(FILE_BYTES))
    layer = top / "layer.tar"
    with tarfile.open(layer, "w") as tar:
        for entry in sorted(tree.iterdir()):
            tar.add(entry, entry.name)
    shutil.rmtree(tree)
    return _write_archive(top / "image.tar", layer)


def _write_archive(archive: Path, layer: Path) -> Path:
    """Write an archive of `docker save` whose image has one layer."""
    with layer.open("rb") as file:
        diff_id = hashlib.file_digest(file, "sha256").hexdigest()
    architecture = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
    content = {"architecture": architecture, "os": "linux", "config": {"WorkingDir": "/opt"}}
    content["rootfs"] = {"type": "layers", "diff_ids": [f"sha256:{diff_id}"]}
    config = json.dumps(content).encode()
    manifest = json.dumps([{"Config": "c.json", "RepoTags": ["bench:1"], "Layers": ["layer.tar"]}]).encode()
    with tarfile.open(archive, "w") as tar:
        tar.add(layer, "layer.tar")
        for name, data in (("c.json", config), ("manifest.json", manifest)):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return archive
