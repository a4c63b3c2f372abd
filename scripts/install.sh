#!/usr/bin/env bash
# Installs the server for good: a virtual environment with exactly what the lock says and the project's wheel,
# which needs nothing of this folder afterwards. The Dockerfile and the packaging tests run it.
# Usage: [PYTHON=python3] install.sh FOLDER [LOCK], by default requirements/runtime.lock
set -euo pipefail
folder=$1
lock=${2:-requirements/runtime.lock}
cd "$(dirname "$0")/.."
export PIP_DISABLE_PIP_VERSION_CHECK=1
python=${PYTHON:-python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$python" -m venv "$folder"
"$folder/bin/python" -m pip install -q --no-deps --require-hashes --target "$work/build" -r requirements/build.lock
PYTHONPATH=$work/build "$folder/bin/python" -m hatchling build -t wheel -d "$work/wheel" >/dev/null

"$folder/bin/python" -m pip install -q --no-deps --require-hashes -r "$lock"
"$folder/bin/python" -m pip install -q --no-deps --no-index "$work"/wheel/*.whl
"$folder/bin/python" -m pip check >/dev/null
