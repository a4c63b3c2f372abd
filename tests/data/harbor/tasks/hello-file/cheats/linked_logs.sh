mkdir -p /tmp/mine
echo 1 > /tmp/mine/reward.txt
rm -rf /logs/verifier
ln -s /tmp/mine /logs/verifier
