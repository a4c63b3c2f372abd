#!/bin/bash
if [ "$(cat /logs/artifacts/state.txt 2>/dev/null)" = tsesrever ]; then
  echo 1 > /logs/verifier/reward.txt
else
  echo 0 > /logs/verifier/reward.txt
fi
