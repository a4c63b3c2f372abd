"""An admin stops a server that the command line runs."""

import json
import subprocess
import sys
import urllib.request

ADMIN = "admin-key-0123456789"
LIMIT = 30.0
"""Seconds that the process may take to start or to stop."""


def ask(url, method):
    request = urllib.request.Request(url, method=method, headers={"X-API-Key": ADMIN})
    with urllib.request.urlopen(request, timeout=LIMIT) as answer:
        return answer.status, json.load(answer)


def test_an_admin_stops_the_process_and_it_ends_in_peace(refenv, monkeypatch):
    monkeypatch.setenv("ORS_API_KEYS", f"admin:root:{ADMIN}")
    program = "from ors_server.cli.main import main; main()"
    command = [sys.executable, "-c", program, "serve", refenv, "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            announced = process.stdout.readline()
            assert announced, process.communicate(timeout=LIMIT)
            control = json.loads(announced)["doors"]["control"]
            assert ask(f"{control}/sessions", "GET")[0] == 200
            assert ask(f"{control}/shutdown", "POST") == (202, {"status": "stopping"})
            assert process.wait(LIMIT) == 0
        finally:
            process.kill()
