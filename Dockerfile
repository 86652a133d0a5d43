# Ballast with all that a run needs, made once; docs/deployment.md says how to build and run it.
ARG BASE=debian:bookworm-slim
FROM ${BASE}
RUN apt-get update \
    && apt-get install --yes --no-install-recommends python3.11 python3.11-venv \
    && rm -rf /var/lib/apt/lists/*
# Hadoop asks for the name of the user that it runs as.
RUN useradd --uid 10001 --create-home ballast \
    && install --directory --owner=ballast --group=ballast /work
WORKDIR /opt/ballast
COPY . .
RUN python3.11 -m setup.environment \
    && rm -rf /root/.cache /root/.ivy2
USER 10001
WORKDIR /work
ENTRYPOINT ["/opt/ballast/spark-submit.sh"]
