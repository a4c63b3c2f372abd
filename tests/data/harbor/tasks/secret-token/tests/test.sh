#!/bin/bash
if [ "$(cat /app/token 2>/dev/null)" = "$TOKEN" ]; then
  echo 1 > /logs/verifier/reward.txt
else
  echo 0 > /logs/verifier/reward.txt
fi
