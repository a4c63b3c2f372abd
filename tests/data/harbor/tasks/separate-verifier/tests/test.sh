#!/bin/bash
[ -e /check/answer.txt ] && exit 1
[ -e /app/out/x.tmp ] && exit 1
[ "$PWD" = /check ] || exit 1
if [ "$(cat /app/answer.txt 2>/dev/null)" = "$WANTED" ]; then
  echo 1 > /logs/verifier/reward.txt
else
  echo 0 > /logs/verifier/reward.txt
fi
