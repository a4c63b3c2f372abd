# The server with the bundled environments, in two stages: everything is built in the first one, and the second
# one gets a virtual environment and nothing else. tests/packaging runs the same steps without a Docker daemon.
# The base image is named by its digest, so that a build next year is the same; Dependabot proposes newer ones.

FROM python:3.13-slim@sha256:7c61056e61ac89e852de05f3dc6fa51a6dd2181797bceed46aa725dd7cb2cd3b AS build
WORKDIR /src
COPY pyproject.toml README.md CHANGELOG.md LICENSE ./
COPY requirements/image.lock requirements/build.lock requirements/
COPY scripts/install.sh scripts/
COPY ors_server ors_server
COPY tasks tasks
RUN scripts/install.sh /opt/ors-server requirements/image.lock

FROM python:3.13-slim@sha256:7c61056e61ac89e852de05f3dc6fa51a6dd2181797bceed46aa725dd7cb2cd3b
# What agents' commands are isolated with, what the bundled tasks use, and HAProxy for servers of several hosts.
# docs/deployment.md says what a container must be allowed for the first. Without bubblewrap's rights the server falls back to Landlock by itself.
# Their newest versions: a pinned one is gone from the mirrors with the next correction of a hole.
# hadolint ignore=DL3008
RUN apt-get update -qq \
    && apt-get install -y -qq --no-install-recommends bubblewrap git haproxy \
    && rm -rf /var/lib/apt/lists/*
RUN useradd --system --uid 10001 --home-dir /nonexistent --shell /usr/sbin/nologin ors \
    && install -d -m 700 -o ors /var/lib/ors-server
COPY --from=build /opt/ors-server /opt/ors-server
ENV PATH=/opt/ors-server/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    ORS_HOST=0.0.0.0 \
    ORS_PORT=8080 \
    ORS_LOG_FORMAT=json \
    ORS_STORE=/var/lib/ors-server/episodes.db
# The record, which outlives the container; docs/record.md.
VOLUME /var/lib/ors-server
USER 10001
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request as r; r.urlopen(f\"http://127.0.0.1:{os.environ['ORS_PORT']}/health\", timeout=4)"]
# Bound to every address, the server refuses to start without keys; docs/deployment.md has the whole command:
#   docker run --init -p 127.0.0.1:8080:8080 -e ORS_API_KEYS=trainer:me:REPLACE-WITH-A-SECRET ors-server
ENTRYPOINT ["ors-server"]
CMD ["serve"]
