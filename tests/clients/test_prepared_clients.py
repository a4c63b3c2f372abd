"""A client's program that is forked is what an interpreter of the client's environment would be."""

import json
import os
import subprocess

import pytest

from tests.clients.conftest import client_python
from tests.prepared_processes import PREPARED, PreparedPopen

STARTS = [PreparedPopen.__base__, PreparedPopen]
SCRIPT = """
import json, os, sys, threading
from ors.client import ORS
import beside, elsewhere
print("at once", end="", file=sys.stderr)
told = {"argv": sys.argv, "path": sys.path, "executable": sys.executable, "prefix": sys.prefix,
        "name": __name__, "file": __file__, "variables": {**os.environ}, "folder": os.getcwd(),
        "threads": threading.active_count(), "main": sys.modules["__main__"].ORS is ORS,
        "written": [beside.__file__, elsewhere.__file__], "parent": os.getppid()}
json.dump(told, sys.stdout)
if "-u" in sys.orig_argv:
    os._exit(3)
raise SystemExit(3)
"""


@pytest.mark.parametrize("options", [[], ["-u"]], ids=["buffered", "unbuffered"])
def test_a_script_has_its_arguments_its_folders_and_its_variables(tmp_path, options):
    for name in ("scripts/asked.py", "scripts/beside.py", "others/elsewhere.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(SCRIPT if name == "scripts/asked.py" else "")
    told = []
    for start in STARTS:
        command = [str(client_python("ors_sdk")), *options, str(tmp_path / "scripts" / "asked.py"), "a", "b"]
        variables = {**os.environ, "PYTHONPATH": str(tmp_path / "others"), "OF_ITS_OWN": "yes"}
        with start(
            command, cwd=tmp_path, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            output, errors = process.communicate(timeout=60)
        told.append((process.returncode, errors, json.loads(output)))
    started, forked = told
    assert forked == started
    assert forked[0] == 3
    assert forked[2]["variables"]["OF_ITS_OWN"] == "yes"
    assert forked[2]["parent"] == os.getpid()


def test_what_a_client_would_read_when_it_is_imported_has_a_process_of_its_own(tmp_path):
    (tmp_path / "asked.py").write_text("import os, sys; print(os.environ['HF_HOME'], hash('a'))")
    told = []
    for start in STARTS:
        for seed in ("1", "2"):
            variables = {**os.environ, "HF_HOME": str(tmp_path), "PYTHONHASHSEED": seed}
            command = [str(client_python("ors_sdk")), str(tmp_path / "asked.py")]
            with start(command, env=variables, stdout=subprocess.PIPE, text=True) as process:
                told.append(process.communicate(timeout=60)[0])
    assert told[:2] == told[2:]
    assert len(set(told)) == 2
    assert len(PREPARED.pids()) >= 2
