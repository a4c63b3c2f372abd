"""What the record says of episodes that the unmodified `openreward` client plays with a labelled key."""

import json
import subprocess
import urllib.request

from tests.clients.conftest import SCRIPTS, client_python

KEY = "training-key-0123456789"


def test_its_episodes_have_split_index_and_the_labels_of_their_key(serve_with, tmp_path):
    keys = tmp_path / "keys.toml"
    keys.write_text(f'[[keys]]\nid = "t"\nrole = "trainer"\nkey = "{KEY}"\nlabels = {{ run = "monday" }}\n')
    url = serve_with(None, "math_word_problems", ORS_API_KEYS_FILE=str(keys), ORS_STORE="memory")
    played = subprocess.run(
        [client_python("openreward"), SCRIPTS / "play_openreward_wrong.py", url, KEY],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert played.returncode == 0, played.stderr
    request = urllib.request.Request(f"{url}/_ors/episodes?label=run=monday", headers={"X-API-Key": KEY})
    with urllib.request.urlopen(request, timeout=20) as answer:
        episodes = json.load(answer)["episodes"]
    places = sorted((episode["split"], episode["index"]) for episode in episodes)
    assert places == [("test", 3), ("test", 4)]
    request = urllib.request.Request(f"{url}/_ors/episodes/totals", headers={"X-API-Key": KEY})
    with urllib.request.urlopen(request, timeout=20) as answer:
        totals = json.load(answer)
    assert (totals["graded"], totals["mean_return"], totals["abandoned"]) == (2, 0.0, 0)
