"""What the console loads from npm: as its packages have it, listed with licences, and in the wheel."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
STATIC = ROOT / "ors_server" / "console" / "static"
NODE = Path(os.environ.get("ORS_TEST_NODE", ROOT / ".node"))


def test_each_file_is_the_one_of_its_package():
    command = [sys.executable, "scripts/assets.py", "--check", NODE]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (0, "")


def test_a_changed_file_is_noticed():
    program = "import sys; sys.argv = ['assets.py', '--check', sys.argv[1]]; import scripts.assets as a; "
    program += "a.LIST = 'other.json'; sys.exit(a.main())"
    result = subprocess.run(
        [sys.executable, "-c", program, NODE], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stdout) == (1, "other.json differs from its package: run make assets\n")


def test_the_list_has_version_licence_and_hash():
    listed = json.loads((STATIC / "assets.json").read_text())
    pinned = json.loads((ROOT / "requirements" / "node" / "package.json").read_text())["dependencies"]
    assert {asset["package"]: asset["version"] for asset in listed} == {
        name: pinned[name] for name in ("htmx.org", "echarts")
    }
    for asset in listed:
        folder = STATIC if asset["package"] == "htmx.org" else ROOT / "ors_server" / "charts"
        content = (folder / asset["file"]).read_bytes()
        assert hashlib.sha256(content).hexdigest() == asset["sha256"]
        assert asset["licence"] in {"0BSD", "Apache-2.0"}
        assert asset["licence_files"]
        assert all((STATIC / name).stat().st_size > 100 for name in asset["licence_files"])
