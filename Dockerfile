# An image with everything that a run needs; docs/deployment.md describes how to build and run it.
ARG BASE=debian:bookworm-slim
FROM ${BASE}
RUN apt-get update \
    && apt-get install --yes --no-install-recommends python3.11 python3.11-venv \
    && rm -rf /var/lib/apt/lists/*
# Hadoop needs a user with a name.
RUN useradd --uid 10001 --create-home ballast \
    && install --directory --owner=ballast --group=ballast /work
WORKDIR /opt/ballast
COPY . .
RUN python3.11 -m setup.environment \
    && rm -rf /root/.cache /root/.ivy2
USER 10001
WORKDIR /work
ENTRYPOINT ["/opt/ballast/spark-submit.sh"]
