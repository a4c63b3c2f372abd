#!/bin/sh
# Copies a record in SQLite while servers use it, and checks the copy.
# Usage: backup.sh EPISODES.DB FOLDER, which is made; PYTHON names the interpreter of the server's installation.
set -eu
source=$1
folder=$2/$(date -u +%Y-%m-%dT%H%M%SZ)
python=${PYTHON:-/opt/ors-server/bin/python}

mkdir -p "$2"
mkdir "$folder"
# SQLite copies it itself: the newest part of the record is in another file, episodes.db-wal.
"$python" - "$source" "$folder/episodes.db" <<'END'
import sqlite3
import sys

source = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True, timeout=30)
copy = sqlite3.connect(sys.argv[2])
source.backup(copy, pages=1000)
copy.execute("PRAGMA journal_mode = delete")
copy.close()
source.close()
END
# After the database, never before it: what the copy names is written before it is named.
if [ -d "$source.blobs" ]; then
  cp -R "$source.blobs" "$folder/episodes.db.blobs"
fi
"$python" -m ors_server store verify --store "$folder/episodes.db"
echo "$folder"
