#!/bin/bash
tidy=1
[ -e /app/one ] && tidy=0
reward=0
[ -e /app/two ] && reward=1
echo "{\"reward\": $reward, \"tidy\": $tidy}" > /logs/verifier/reward.json
