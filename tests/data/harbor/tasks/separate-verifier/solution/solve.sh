#!/bin/bash
mkdir -p out
echo blue > /app/answer.txt
echo x > out/x.tmp
echo y > out/y.txt
