"""Runs a server's program and notes which functions of its package its main thread enters between signals.

SIGUSR1 begins; SIGUSR2 ends, and writes the entries in order as a JSON list of `[file, function, line]`.

Usage: PACKAGE FILE PROGRAM [ARGUMENT...]
"""

import importlib.util
import json
import runpy
import signal
import sys
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

package, target, program = sys.argv[1:4]
spec = importlib.util.find_spec(package)
if spec is None or not spec.submodule_search_locations:
    sys.exit(f"the package {package} is not installed")
root = f"{spec.submodule_search_locations[0]}/"
entered: list[CodeType] = []


def note(frame: FrameType, event: str, value: Any) -> None:
    """Note a function that is entered; a coroutine that resumes counts again, as a reader meets it again."""
    del value
    if event == "call" and frame.f_code.co_filename.startswith(root):
        entered.append(frame.f_code)


def begin(number: int, frame: FrameType | None) -> None:
    """Forget what was noted, and note from now on."""
    del number, frame
    entered.clear()
    sys.setprofile(note)


def end(number: int, frame: FrameType | None) -> None:
    """Stop, and write what was noted; the rename makes it appear whole."""
    del number, frame
    sys.setprofile(None)
    rows = [[code.co_filename.removeprefix(root), code.co_qualname, code.co_firstlineno] for code in entered]
    draft = Path(f"{target}.draft")
    draft.write_text(json.dumps(rows))
    draft.rename(target)


signal.signal(signal.SIGUSR1, begin)
signal.signal(signal.SIGUSR2, end)
sys.argv = [program, *sys.argv[4:]]
runpy.run_path(program, run_name="__main__")
