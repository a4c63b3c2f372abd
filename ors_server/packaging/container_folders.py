"""Folders for `docker build`: on the server's image, and as a Hugging Face Space for every visitor."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import shorten

from ors_server.packaging.environment_source import EnvironmentSource
from ors_server.packaging.pip_project import requirements_of, version_of
from ors_server.packaging.text_forms import yaml_document

IMAGE = "ors-server:local"
"""The server's image, as the checkout's Dockerfile is built in the documents."""
BASE = "python:3.13-slim"
"""Image of a Space, which can build on public images only."""
SPACE_PORT = 7860
"""Port that Spaces reach if nothing else is stated."""
PLACE = "/opt/environments"
_MAX_SHORT = 60
"""Characters of a Space's short description."""
_FRAMES = ["https://huggingface.co"]
_INSTALL = "python -m pip install --no-cache-dir --disable-pip-version-check"
_PROXIES = ["10.0.0.0/8"]


def write_docker(source: EnvironmentSource, folder: Path, image: str = IMAGE) -> Sequence[str]:
    """Write a folder that `docker build` takes; return the commands that use it."""
    source.write(folder / "environments" / source.name)
    own = requirements_of(source)[1:]
    install = ""
    if own:
        (folder / "requirements.txt").write_text("".join(f"{line}\n" for line in own), encoding="utf-8")
        install = (
            "USER 0\nCOPY requirements.txt /tmp/requirements.txt\n"
            f"RUN {_INSTALL} -r /tmp/requirements.txt \\\n"
            "    && rm /tmp/requirements.txt\n"
        )
    key = "ORS_API_KEYS=trainer:me:REPLACE-WITH-A-SECRET"
    run = f"docker run --init -p 127.0.0.1:8080:8080 -e {key} {source.name}"
    text = (
        f"# {source.name} on the server's image, which `docker build -t {IMAGE} .` makes in its checkout:\n"
        f"#   docker build -t {source.name} .\n#   {run}\n"
        f"ARG SERVER={image}\nFROM ${{SERVER}}\n{install}"
        "# Owned by root: the server reads it, and neither it nor an agent can change it.\n"
        f"COPY environments {PLACE}\nUSER 10001\n"
        f"CMD {json.dumps(['serve', f'{PLACE}/{_path_in(source)}'])}\n"
    )
    (folder / "Dockerfile").write_text(text, encoding="utf-8")
    (folder / ".dockerignore").write_text("*\n!environments\n!requirements.txt\n", encoding="utf-8")
    return [f"docker build -t {source.name} {folder}", run]


def write_space(source: EnvironmentSource, folder: Path) -> Sequence[str]:
    """Write the repository of a Space whose page is the play page; return the commands that use it."""
    source.write(folder / "environments" / source.name)
    front = front_matter(source, SPACE_PORT, ["ors-server"])
    page = f"""# {source.name}

{source.description}

Play a task on the page, or give an agent the address of this Space with `/mcp` after it: it is an MCP server.
Every visitor may play, within limits per address; tasks, answers and records are closed.
"""
    (folder / "README.md").write_text(f"---\n{front}---\n\n{page}", encoding="utf-8")
    (folder / "Dockerfile").write_text(public_dockerfile(source, SPACE_PORT, {}), encoding="utf-8")
    return [f"docker build -t {source.name}-space {folder}", f"git push the files of {folder} to a Space"]


def front_matter(source: EnvironmentSource, port: int, tags: Sequence[str]) -> str:
    """Return the front matter of a Space's README."""
    licence = source.project.get("license")
    return yaml_document(
        {
            "title": source.name,
            "emoji": "🎯",
            "colorFrom": "blue",
            "colorTo": "green",
            "sdk": "docker",
            "app_port": port,
            "base_path": "/console/play",
            "pinned": False,
            "short_description": shorten(source.description, _MAX_SHORT, placeholder="…"),
            "tags": [*tags, "reinforcement-learning", "environment"],
            **({"license": licence.lower()} if isinstance(licence, str) else {}),
        }
    )


def public_dockerfile(source: EnvironmentSource, port: int, variables: Mapping[str, str]) -> str:
    """Return a Dockerfile that needs no other image of ours, and serves the public."""
    settings = {
        "ORS_HOST": "0.0.0.0",  # noqa: S104  (the address within the container)
        "ORS_PORT": str(port),
        "ORS_PUBLIC": "true",
        "ORS_VISIBILITY": "visible",
        "ORS_STORE": "memory",
        "ORS_ALLOWED_HOSTS": json.dumps(["*"]),
        "ORS_ALLOWED_FRAMES": json.dumps(_FRAMES),
        "ORS_TRUSTED_PROXIES": json.dumps(_PROXIES),
        **variables,
    }
    lines = " \\\n    ".join(f"{name}={json.dumps(value)}" for name, value in settings.items())
    packages = " ".join(json.dumps(text) for text in requirements_of(source))
    own_url = "${SPACE_HOST:+ORS_PUBLIC_URL=https://$SPACE_HOST}"  # a Space knows where it is served
    serve = f"exec env {own_url} ors-server serve {PLACE}/{_path_in(source)}"
    return f"""# {source.name} {version_of(source)}: every visitor plays it, on a page and over MCP.
FROM {BASE}
# Debian keeps only the newest version of a package: one that is pinned could not be installed later.
# hadolint ignore=DL3008
RUN apt-get update -qq \\
    && apt-get install -y -qq --no-install-recommends bubblewrap git \\
    && rm -rf /var/lib/apt/lists/* \\
    && {_INSTALL} {packages} \\
    && useradd --uid 1000 --no-create-home --shell /usr/sbin/nologin ors
COPY environments {PLACE}
# Spaces are reached through proxies with private addresses, which name the visitor's address. Visitors
# may play; none reads tasks or answers. A record in memory ends with the container.
ENV PYTHONUNBUFFERED=1 \\
    {lines}
USER 1000
EXPOSE {port}
CMD {json.dumps(["sh", "-c", serve])}
"""


def _path_in(source: EnvironmentSource) -> str:
    return f"{source.name}/environment.py" if source.is_single else source.name
