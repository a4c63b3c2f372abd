"""Writes the labelled answers of reward-doctor's corpus, but its contested ones, as one JSON list."""

import json
import sys

from reward_doctor import corpus

json.dump([case.to_dict() for case in corpus.load()], sys.stdout)
