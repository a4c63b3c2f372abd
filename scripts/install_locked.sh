#!/usr/bin/env bash
# Installs a lock file into an environment: with uv, or with pip where uv cannot. Modules are compiled when they
# are first imported: most never are.
# Usage: install_locked.sh FOLDER LOCK...
set -euo pipefail
folder=$1
shift
uv=$(dirname "$0")/../.venv/bin/uv

arguments=()
for lock in "$@"; do arguments+=(-r "$lock"); done

if [ -x "$uv" ]; then
  if "$uv" pip install -q --python "$folder/bin/python" --no-deps --require-hashes "${arguments[@]}"; then exit 0; fi
  echo "uv could not install ${*}; trying pip." >&2
fi
if ! "$folder/bin/python" -m pip --version >/dev/null 2>&1; then "$folder/bin/python" -m ensurepip >/dev/null; fi
"$folder/bin/python" -m pip install -q --no-compile --no-deps --require-hashes "${arguments[@]}"
