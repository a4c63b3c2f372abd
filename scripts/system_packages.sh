#!/usr/bin/env bash
# Installs packages of the system that are missing, where that is possible (root and apt-get); else says the one
# command to type and fails, or with --try goes on without them.
# Usage: system_packages.sh [--try] PACKAGE...
set -euo pipefail

needed=yes
if [ "${1:-}" = --try ]; then
  needed=no
  shift
fi

is_there() {
  case $1 in
    bubblewrap) command -v bwrap ;;
    chromium) command -v chromium || command -v chromium-browser || command -v google-chrome ;;
    firefox-esr) command -v firefox-esr || command -v firefox ;;
    build-essential) command -v g++ && command -v make ;;
    default-jdk-headless) command -v javac ;;
    openjdk-*-jre-headless) command -v java ;;
    # Debian keeps the server's programs away from PATH.
    postgresql) command -v initdb || compgen -G "/usr/lib/postgresql/*/bin/initdb" ;;
    *) command -v "$1" || dpkg -s "$1" ;;
  esac >/dev/null 2>&1
}

missing=()
for package in "$@"; do
  if ! is_there "$package"; then missing+=("$package"); fi
done
if [ ${#missing[@]} -eq 0 ]; then exit 0; fi

if [ "$(uname)" != Linux ]; then
  install=""
elif command -v apt-get >/dev/null 2>&1; then
  install="apt-get install -y --no-install-recommends"
elif command -v dnf >/dev/null 2>&1; then
  install="dnf install -y"
elif command -v pacman >/dev/null 2>&1; then
  install="pacman -S --noconfirm"
elif command -v apk >/dev/null 2>&1; then
  install="apk add"
else
  install=""
fi

give_up() {
  echo "Missing: ${missing[*]}. $1" >&2
  if [ -n "$install" ]; then
    echo "To install, type: $([ "$(id -u)" -eq 0 ] || echo "sudo ")$install ${missing[*]}" >&2
  elif [ "$(uname)" != Linux ]; then
    echo "They exist on Linux only." >&2
  fi
  if [ "$needed" = yes ]; then exit 1; fi
  echo "Going on without: agents' commands get the strongest isolation that works here." >&2
  exit 0
}

if [ "$(id -u)" -ne 0 ]; then give_up "Only root may install them."; fi
if [[ "$install" != apt-get* ]]; then give_up "They are not installed from here."; fi

# Debian's package makes a cluster and starts it on port 5432. Tests start servers of their own, so that here it
# makes none; its own way of saying so is a file, which is gone again afterwards.
if [[ " ${missing[*]} " == *" postgresql "* ]]; then
  folder=${ORS_CREATECLUSTER:-/etc/postgresql-common/createcluster.d}
  mkdir -p "$folder"
  trap 'rm -f "$folder/no-main-cluster.conf"' EXIT
  echo "create_main_cluster = false" >"$folder/no-main-cluster.conf"
fi

export DEBIAN_FRONTEND=noninteractive
if ! { apt-get update -qq && $install -qq "${missing[@]}"; } </dev/null >&2; then
  give_up "Installing them failed; see above."
fi
