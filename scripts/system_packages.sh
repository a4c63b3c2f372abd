#!/usr/bin/env bash
# Installs Debian packages that are missing, where that is possible (root and apt-get); else says what to do.
# Usage: system_packages.sh PACKAGE...
set -euo pipefail

missing=()
for package in "$@"; do
  if ! command -v "$package" >/dev/null 2>&1 && ! dpkg -s "$package" >/dev/null 2>&1; then
    missing+=("$package")
  fi
done
if [ ${#missing[@]} -eq 0 ]; then exit 0; fi

if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
  echo "Missing: ${missing[*]}. Install them with this system's package manager, then run make again." >&2
  exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq </dev/null
apt-get install -y -qq --no-install-recommends "${missing[@]}" </dev/null
