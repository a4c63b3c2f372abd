#!/bin/bash
count=$(sort -u /app/numbers 2>/dev/null | grep -c "[02468]$")
reward=$(awk "BEGIN { print ($count - 1) / 2 }")
[ "$count" -eq 0 ] && reward=-1
echo "{\"reward\": $reward, \"even\": $count, \"share\": 0.25}" > /logs/verifier/reward.json
