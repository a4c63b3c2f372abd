#!/bin/bash
cd /tests && python3 -m unittest -q test_calc
if [ $? -eq 0 ]; then
  echo 1 > /logs/verifier/reward.txt
else
  echo 0 > /logs/verifier/reward.txt
fi
