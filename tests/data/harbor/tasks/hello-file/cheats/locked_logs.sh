mkdir -p /logs/verifier/deep
echo 1 > /logs/verifier/reward.txt
chmod 000 /logs/verifier/deep /logs/verifier
chmod 555 /logs
