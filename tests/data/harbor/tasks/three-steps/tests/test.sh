#!/bin/bash
name=$(cat /tests/step)
if [ -e "/app/$name" ]; then
  echo 1 > /logs/verifier/reward.txt
else
  echo 0 > /logs/verifier/reward.txt
fi
