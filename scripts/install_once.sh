#!/usr/bin/env bash
# Runs an installation, unless its stamp holds the checksum of the files from which it follows: a checkout or a
# merge makes files younger than the stamp that say the same as before.
# Usage: install_once.sh STAMP FILE... -- COMMAND...
set -euo pipefail
stamp=$1
shift
files=()
while [ "$1" != -- ]; do
  files+=("$1")
  shift
done
shift

checksum=$(cat "${files[@]}" | cksum)
if [ "$(cat "$stamp" 2>/dev/null)" = "$checksum" ]; then
  touch "$stamp"
  exit 0
fi
# An installation that fails half-way leaves no stamp, so that going back to the earlier files installs them again.
rm -f "$stamp"
"$@"
echo "$checksum" >"$stamp"
