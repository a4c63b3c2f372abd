#!/usr/bin/env bash
# Runs the tests that need no client environments on every supported Python that this machine has.
# Three processes share the tests out, as in test.sh; TEST_PROCESSES says otherwise.
# Usage: matrix.sh [PYTEST ARGUMENT...]
set -uo pipefail
cd "$(dirname "$0")/.."

find_python() {
  local version=$1 candidate
  for candidate in "python$version" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$version".*/bin/python; do
    if "$candidate" -c "import sys, venv, ensurepip; sys.exit('%d.%d' % sys.version_info[:2] != '$version')" \
      >/dev/null 2>&1; then
      command -v "$candidate"
      return
    fi
  done
  return 1
}

prepare() {
  local python=$1 folder=$2
  local locks=(requirements/dev.lock requirements/worlds/{gymnasium,reasoning-gym,scienceworld,tasks}.lock) lock is_current=yes
  for lock in "${locks[@]}" pyproject.toml; do
    if [ ! "$folder/.installed" -nt "$lock" ]; then is_current=; fi
  done
  if [ -n "$is_current" ]; then return; fi
  "$python" -m venv "$folder" \
    && "$folder/bin/python" -m pip install -q --no-deps --require-hashes "${locks[@]/#/--requirement=}" \
    && "$folder/bin/python" -m pip install -q --no-deps --no-build-isolation -e . \
    && touch "$folder/.installed"
}

verdicts=() status=0
for version in 3.11 3.12 3.13 3.14; do
  if ! python=$(find_python $version); then
    verdicts+=("Python $version: not on this machine")
    continue
  fi
  echo "== Python $version ($python)"
  folder=.venvs/matrix-$version
  if prepare "$python" "$folder" \
    && "$folder/bin/python" -m pytest -q -p no:cacheprovider --numprocesses "${TEST_PROCESSES:-3}" \
      --dist loadscope --no-loadscope-reorder "${@:-tests/unit}" </dev/null; then
    verdicts+=("Python $version: passed")
  else
    verdicts+=("Python $version: failed")
    status=1
  fi
done
printf '%s\n' "${verdicts[@]}"
exit $status
