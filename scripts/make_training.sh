#!/usr/bin/env bash
# Makes the environment in which examples/ trains: the packages of a lock file, PyTorch for the CPU, and this project.
# uv knows where PyTorch's wheels for the CPU are; where it cannot reach them, pip's configuration may name another place.
# Usage: [PYTHON=python3] make_training.sh LOCK FOLDER
set -euo pipefail
lock=$1 folder=$2
here=$(dirname "$0")
torch=2.13.0

if [ ! -x "$folder/bin/python" ]; then "$here/make_venv.sh" "$folder"; fi
"$here/install_locked.sh" "$folder" "$lock"
if ! "$here/../.venv/bin/uv" pip install -q --python "$folder/bin/python" --no-deps --torch-backend cpu "torch==$torch"; then
  "$folder/bin/python" -m pip install -q --no-deps "torch==$torch+cpu"
fi
site=$("$folder/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
(cd "$here/.." && pwd) >"$site/ors_server_of_this_folder.pth"
