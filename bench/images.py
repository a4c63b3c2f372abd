"""Images as roots: how fast a session starts on one beside a plain session, what it holds, and unpacking."""

import asyncio
import hashlib
import io
import json
import os
import platform
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
UNPACK = Goal("ratio", least=0.5)


def measure(rounds: int = 40) -> list[Row]:
    """Measure bubblewrap on this machine, with an image that is made of its own programs."""
    with tempfile.TemporaryDirectory(prefix="ors-bench-images-") as folder:
        top = Path(folder)
        archive, layer = _write_image(top)
        cache = ImageCache(top / "cache")
        began = time.perf_counter()
        image = cache.add(archive, "bench:1")
        unpacked = time.perf_counter() - began
        (top / "plain").mkdir()
        began = time.perf_counter()
        subprocess.run(["tar", "-x", "-f", layer, "-C", top / "plain"], check=True)  # noqa: S607  (a peer)
        plain = time.perf_counter() - began
        rate = Row("unpack an image", "images/s", 1 / unpacked, 1 / plain, "tar -x of its only layer", UNPACK)
        return [*uvloop.run(_measure_sessions(SandboxRoot.of_image(image.as_tree()), rounds)), rate]


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
        held = (available - bare_shells.available_kib()) / CROWD / 1024
        await asyncio.gather(*(sandbox.aclose() for sandbox in crowd))
        plain_crowd = []
        available = bare_shells.available_kib()
        for number in range(CROWD):
            plain_crowd.append(await backend.start(f"plain-{number}", Limits()))
            await plain_crowd[-1].exec("true")
        plain_held = (available - bare_shells.available_kib()) / CROWD / 1024
        await asyncio.gather(*(sandbox.aclose() for sandbox in plain_crowd))
        return [
            Row("start on a cached image, and true", "ms", ours, peer, "a plain session", START),
            Row(f"memory of {CROWD} sessions on one image", "MiB each", held, plain_held, "plain ones", HELD),
        ]
    finally:
        await chosen.aclose()


def _write_image(top: Path) -> tuple[Path, Path]:
    """Write an archive of `docker save` with one layer; return both files."""
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
    diff_id = hashlib.sha256(layer.read_bytes()).hexdigest()
    architecture = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
    content = {"architecture": architecture, "os": "linux", "config": {"WorkingDir": "/opt"}}
    content["rootfs"] = {"type": "layers", "diff_ids": [f"sha256:{diff_id}"]}
    config = json.dumps(content).encode()
    manifest = json.dumps([{"Config": "c.json", "RepoTags": ["bench:1"], "Layers": ["layer.tar"]}]).encode()
    archive = top / "image.tar"
    with tarfile.open(archive, "w") as tar:
        tar.add(layer, "layer.tar")
        for name, data in (("c.json", config), ("manifest.json", manifest)):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return archive, layer
