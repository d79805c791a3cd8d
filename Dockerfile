# The image of triggerctl: `docker build -t triggerctl .`, with the libraries of all launchers by
# `--build-arg EXTRAS=all`. Tasks of `process` and `python` run inside: build yours FROM it.
FROM python:3.11-slim AS build
ARG EXTRAS=kubernetes
WORKDIR /source
COPY pyproject.toml README.md LICENSE triggerctl.py ./
COPY revisions revisions
COPY reconcile reconcile
COPY controller controller
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .
RUN python -m venv /opt/triggerctl
RUN /opt/triggerctl/bin/pip install --no-cache-dir "$(echo /wheels/triggerctl-*.whl)${EXTRAS:+[$EXTRAS]}"

FROM python:3.11-slim
# tini is process 1: it buries what tasks leave behind, and hands SIGTERM on from the first moment.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends tini \
    && rm -rf /var/lib/apt/lists/*
RUN useradd --uid 10001 --user-group --no-create-home --home-dir /tmp --shell /usr/sbin/nologin triggerctl \
    && install --directory --owner=triggerctl --group=triggerctl /data
COPY --from=build /opt/triggerctl /opt/triggerctl
ENV PATH=/opt/triggerctl/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 10001:10001
WORKDIR /data
EXPOSE 8080
# No HEALTHCHECK: Kubernetes asks /healthz and /readyz itself, and without it a container may run `db upgrade` as well.
ENTRYPOINT ["tini", "--", "triggerctl"]
CMD ["up"]
