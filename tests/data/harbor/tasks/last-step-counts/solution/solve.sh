#!/bin/bash
step=$(ls /work | wc -l)
echo "$step" > /work/file$step
