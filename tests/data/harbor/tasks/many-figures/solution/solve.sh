#!/bin/bash
printf "2\n4\n6\n" > /app/numbers
