"""Copies what the console loads from npm into the package, with version, licence and SHA-256.

The packages are pinned in requirements/node/package-lock.json. `--check` writes nothing, and fails if a file
differs. Usage: assets.py [--check] [FOLDER OF NODE]
"""

import argparse
import hashlib
import json
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STATIC = ROOT / "ors_server" / "console" / "static"
CHARTS = ROOT / "ors_server" / "charts"
"""The home of what draws charts, in the console and in reports."""
LIST = "assets.json"


@dataclass(frozen=True)
class Asset:
    """A file of a package, and the texts that have to travel with it."""

    package: str
    file: str
    folder: Path
    licences: tuple[str, ...]
    """Paths in `node_modules`: the bundle contains parts of other packages."""


ASSETS = (
    Asset("htmx.org", "dist/htmx.min.js", STATIC, ("htmx.org/LICENSE",)),
    Asset(
        "echarts",
        "dist/echarts.common.min.js",
        CHARTS,
        (
            "echarts/LICENSE",
            "echarts/NOTICE",
            "echarts/licenses/LICENSE-d3",
            "zrender/LICENSE",
            "echarts/node_modules/tslib/LICENSE.txt",
        ),
    ),
)


def collect(modules: Path) -> dict[Path, bytes]:
    """Return every file by its path; the list and the licences are with the console."""
    files: dict[Path, bytes] = {}
    listed: list[dict[str, object]] = []
    for asset in ASSETS:
        package = json.loads((modules / asset.package / "package.json").read_text())
        content = (modules / asset.package / asset.file).read_bytes()
        name = Path(asset.file).name
        licences = {
            f"licences/{'-'.join(Path(path).with_suffix('').parts)}.txt": path for path in asset.licences
        }
        files[asset.folder / name] = content
        files |= {STATIC / target: (modules / path).read_bytes() for target, path in licences.items()}
        listed.append(
            {
                "file": name,
                "package": asset.package,
                "version": package["version"],
                "licence": package["license"],
                "licence_files": sorted(licences),
                "sha256": hashlib.sha256(content).hexdigest(),
            }
        )
    files[STATIC / LIST] = (json.dumps(listed, indent=2) + "\n").encode()
    return files


def main() -> int:
    """Write the files, or compare them; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    parser.add_argument("node", nargs="?", type=Path, default=ROOT / ".node")
    options = parser.parse_args()
    status = 0
    for path, content in collect(options.node / "node_modules").items():
        if options.check:
            if not path.is_file() or path.read_bytes() != content:
                print(f"{path.name} differs from its package: run make assets")
                status = 1
            continue
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    return status


if __name__ == "__main__":
    sys.exit(main())
