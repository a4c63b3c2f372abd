#!/bin/bash
[ -e /tests/step ] && exit 1
touch /app/two
rm /app/one
