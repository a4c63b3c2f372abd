#!/bin/bash
[ "$KIND" = "plain text" ] || exit 1
if [ "$(tr -d " \n" < /srv/result.txt 2>/dev/null)" = "$EXPECTED" ]; then
  echo 1 > /logs/verifier/reward.txt
else
  echo 0 > /logs/verifier/reward.txt
fi
