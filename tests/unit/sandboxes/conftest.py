"""A Docker engine of our own: it speaks enough of the API, and its containers are bubblewrap's."""

import json
import os
import signal
import struct
import subprocess
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingUnixStreamServer
from urllib.parse import parse_qs, urlsplit

import pytest

from ors_server.sandboxes.docker.engine import Engine

LIMIT = 30.0
IMAGE_PATH = "/usr/local/bin:/usr/bin:/bin"


OPEN_FOLDERS = [part for name in ("etc", "run", "home", "var") for part in ("--dir", f"/{name}")]
"""What bubblewrap would make for its own user alone."""


class FakeContainer:
    """One container, of which only the mounts and the command are taken seriously."""

    def __init__(self, config, folder):
        self.config = config
        self.folder = folder
        self.pid = 0
        self.is_paused = False
        self.started = threading.Event()
        self.process = None

    def start(self):
        user = int(self.config["User"].partition(":")[0])
        told, tells = os.pipe()
        argv = ["bwrap", *self._view(user), "--info-fd", str(tells), "--as-pid-1", "--new-session", "--"]
        if os.geteuid() == 0 and user:
            argv += ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--"]
        argv += [*self.config["Entrypoint"], *self.config["Cmd"]]
        pipe = subprocess.PIPE if self.config.get("AttachStdin") else subprocess.DEVNULL
        self.process = subprocess.Popen(
            argv,
            stdin=pipe,
            stdout=pipe,
            stderr=None if pipe == subprocess.DEVNULL else pipe,
            pass_fds=[tells],
        )
        os.close(tells)
        with os.fdopen(told) as info:
            self.pid = json.load(info)["child-pid"]
        self.started.set()

    def _view(self, user):
        view = ["--unshare-pid", "--unshare-net", "--unshare-ipc", "--clearenv", "--tmpfs", "/"]
        view += ["--ro-bind", "/usr", "/usr", "--proc", "/proc", "--dev", "/dev", *OPEN_FOLDERS]
        if os.geteuid() != 0:
            view += ["--unshare-user"]
        for name in ("bin", "sbin", "lib", "lib64"):
            place = Path("/", name)
            view += ["--symlink", str(place.readlink()), str(place)] if place.is_symlink() else []
        for target in self.config["HostConfig"].get("Tmpfs", {}):
            view += ["--perms", "1777", "--tmpfs", target]
        for mount in self.config["HostConfig"]["Mounts"]:
            if mount["Type"] == "volume":
                self.folder.mkdir()
                if os.geteuid() == 0:
                    os.chown(self.folder, user, user)
                view += ["--bind", str(self.folder), mount["Target"]]
            else:
                how = "--ro-bind" if mount["ReadOnly"] else "--bind"
                how = "--dev-bind" if mount["Source"].startswith("/dev/") else how
                view += [how, mount["Source"], mount["Target"]]
        for variable in [f"PATH={IMAGE_PATH}", "HOSTNAME=sandbox", *self.config.get("Env", [])]:
            view += ["--setenv", *variable.split("=", 1)]
        return [*view, "--chdir", self.config["WorkingDir"]]

    def pause(self, *, is_paused):
        self.is_paused = is_paused

    def wait(self):
        self.process.wait()
        return self.process.returncode if self.process.returncode >= 0 else 128 - self.process.returncode

    def attach(self, rfile, wfile):
        """Carry the three streams as the engine frames them."""
        if not self.started.wait(LIMIT):
            return
        sending = threading.Lock()

        def feed():
            with suppress(OSError, ValueError):
                while piece := rfile.read1(65_536):
                    self.process.stdin.write(piece)
                    self.process.stdin.flush()
            with suppress(OSError):
                self.process.stdin.close()

        def carry(kind, stream):
            with suppress(OSError, ValueError), stream:
                while piece := stream.read1(65_536):
                    with sending:
                        wfile.write(struct.pack(">BxxxL", kind, len(piece)) + piece)

        threading.Thread(target=feed, daemon=True).start()
        carriers = [
            threading.Thread(target=carry, args=(kind, stream), daemon=True)
            for kind, stream in ((1, self.process.stdout), (2, self.process.stderr))
        ]
        for carrier in carriers:
            carrier.start()
        for carrier in carriers:
            carrier.join(LIMIT)

    def kill(self):
        if self.process is not None:
            with suppress(OSError):
                os.kill(self.pid, signal.SIGKILL)
            self.process.wait()
            for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
                if stream is not None:
                    with suppress(OSError):
                        stream.close()


class FakeEngine:
    """Answers what a test says, and else what an engine would."""

    HANG_UP = 0
    VERSION = "1.41"

    def __init__(self, folder):
        self.folder = folder
        self.host = f"unix://{folder / 'engine.sock'}"
        self.asked = []
        self.answers = {}
        self.labels = {}
        """Of containers that nothing runs in."""
        self.made = {}
        self.info = {
            "OSType": "linux",
            "ServerVersion": "20.10.24",
            "MemoryLimit": True,
            "PidsLimit": True,
            "CpuCfsQuota": True,
            "SecurityOptions": ["name=seccomp,profile=default"],
        }
        self.image = {"Config": {"Env": ["A=1", f"PATH={IMAGE_PATH}"]}}
        self._server = ThreadingUnixStreamServer(str(folder / "engine.sock"), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def answer(self, method, url, body):
        path = url.path.partition(f"/v{self.VERSION}")[2] or url.path
        self.asked.append((method, path))
        if (method, path) in self.answers:
            return self.answers[method, path]
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        known = {
            ("GET", "/version"): lambda: (200, {"ApiVersion": self.VERSION, "Version": "20.10.24"}),
            ("GET", "/info"): lambda: (200, self.info),
            ("GET", "/images/some:image/json"): lambda: (200, self.image),
            ("GET", "/images/other/json"): lambda: (404, {"message": "no such image"}),
            ("GET", "/containers/json"): lambda: (200, self._labelled(query)),
            ("POST", "/containers/create"): lambda: (201, self._create(query["name"], json.loads(body))),
        }
        on_one = known.get((method, path)) or self._on_container(method, path)
        return on_one() if on_one else (404, {"message": "nothing there"})

    def _on_container(self, method, path):
        name, _, action = path.removeprefix("/containers/").partition("/")
        if method == "DELETE" and name in self.labels:
            return lambda: self._remove(name)
        container = self.made.get(name)
        if container is None:
            return None
        return {
            "start": lambda: (204, container.start()),
            "json": lambda: (200, _inspected(container)),
            "wait": lambda: (200, {"StatusCode": container.wait()}),
            "pause": lambda: (204, container.pause(is_paused=True)),
            "unpause": lambda: (204, container.pause(is_paused=False)),
        }.get(action)

    def _labelled(self, query):
        (wanted,) = json.loads(query["filters"])["label"]
        name, _, value = wanted.partition("=")
        return [
            {"Id": key, "Labels": labels} for key, labels in self.labels.items() if labels.get(name) == value
        ]

    def _create(self, name, config):
        self.made[name] = FakeContainer(config, self.folder / f"{name}.volume")
        self.labels[name] = config["Labels"]
        return {"Id": name}

    def _remove(self, name):
        del self.labels[name]
        if name in self.made:
            self.made[name].kill()
        return 204, None

    def close(self):
        for container in self.made.values():
            container.kill()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _inspected(container):
    is_over = container.process is None or container.process.poll() is not None
    return {
        "State": {"Pid": 0 if is_over else container.pid},
        "Mounts": [{"Type": "volume", "Source": str(container.folder)}],
    }


def _handler(engine):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args):
            pass

        def address_string(self):
            return "socket"

        def answer(self):
            url = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if url.path.endswith("/attach"):
                self.wfile.write(b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n")
                self.close_connection = True
                engine.made[url.path.split("/")[-2]].attach(self.rfile, self.wfile)
                return
            status, said = engine.answer(self.command, url, body)
            self.close_connection = status == engine.HANG_UP
            if status == engine.HANG_UP:
                return
            content = json.dumps(said).encode() if said is not None else b""
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_DELETE = answer  # noqa: N815 # what the library looks for

    return Handler


@pytest.fixture
def fake(tmp_path):
    engine = FakeEngine(tmp_path)
    yield engine
    engine.close()


@pytest.fixture
def engine(fake):
    connected = Engine(fake.host)
    yield connected
    connected.close()
