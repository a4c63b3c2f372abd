# Your own environment on top of the server's image, which `docker build -t ors-server:local .` makes:
#   docker build -t my-environment -f deploy/environment.Dockerfile FOLDER
# FOLDER has `my_environment/` and the packages that it needs, with versions, in `requirements.txt`.
ARG SERVER=ors-server:local
FROM ${SERVER}
USER 0
COPY requirements.txt /tmp/requirements.txt
RUN python -m pip install --no-cache-dir --disable-pip-version-check -r /tmp/requirements.txt \
    && rm /tmp/requirements.txt
# Owned by root: the server reads it, and neither it nor an agent can change it.
COPY my_environment /opt/environments/my_environment
USER 10001
CMD ["serve", "/opt/environments/my_environment"]
