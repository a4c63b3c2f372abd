mkdir -p /check /opt/bin
echo blue > /check/answer.txt
printf "#!/bin/bash\necho 1 > /logs/verifier/reward.txt\n" > /check/run
chmod +x /check/run
