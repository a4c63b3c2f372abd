#!/bin/bash
cat /app/seed.txt && touch /app/three
