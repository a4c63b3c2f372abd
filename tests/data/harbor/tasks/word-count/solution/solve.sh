#!/bin/bash
"/opt/tools/count words" /data/poem.txt > "$RESULT"
