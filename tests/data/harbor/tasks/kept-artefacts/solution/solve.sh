#!/bin/bash
mkdir report
echo "all is well" > report/a.txt
printf "\377\376" > data.bin
head -c 100000 /dev/zero > report/large
echo seen > /logs/artifacts/log.txt
