"""The gateways that are known without an adapter, each set up as its own documentation recommends, with one worker.

One worker each, so that the figure is what one core buys; scaling out is everybody's own affair.
"""

from __future__ import annotations

from benchmarks.gateways.adapter import Peer

# nginx.org, ngx_http_upstream_module "keepalive": HTTP/1.1 and an empty Connection header are needed for it to work;
# buffering off because server-sent events must not wait for a full buffer.
_NGINX = """
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events { worker_connections 8192; }
http {
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  client_max_body_size 64m;
  client_body_buffer_size 1m;
  keepalive_requests 1000000;
  upstream mock { server {upstream_address}; keepalive 512; keepalive_requests 1000000; }
  server {
    listen 127.0.0.1:{port} backlog=4096;
    location / {
      proxy_pass http://mock;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
      proxy_read_timeout 600s;
    }
  }
}
"""

# docs.litellm.ai, "Best practices for production": LITELLM_MODE, LITELLM_LOG=ERROR, no verbose output.
_LITELLM = """
model_list:
  - model_name: {model}
    litellm_params:
      model: openai/{model}
      api_base: {upstream}/v1
      api_key: not-a-key
litellm_settings:
  set_verbose: false
  request_timeout: 600
  telemetry: false
general_settings:
  disable_spend_logs: true
"""

BUILT_IN = (
    Peer(
        name="understudy",
        program="understudy",
        command=(
            "{program}",
            *("serve", "--upstream", "{upstream}/v1", "--host", "127.0.0.1", "--port", "{port}"),
        ),
        ready_path="/readyz",
        note="this project's gateway, transparent, remembering nothing",
    ),
    Peer(
        name="nginx",
        program="nginx",
        command=("{program}", "-p", "{folder}", "-c", "{config}", "-e", "{folder}/error.log"),
        config=_NGINX,
        config_name="nginx.conf",
        note="proxy_pass, keep-alive to the upstream, no buffering, one worker",
    ),
    Peer(
        name="relay",
        program="{python}",
        command=(
            "{python}",
            "-m",
            "benchmarks.overhead.relay_bare",
            "{upstream}",
            "{port}",
        ),
        note="bare aiohttp on uvloop, bytes in, bytes out: the floor for a Python gateway",
    ),
    Peer(
        name="litellm",
        program="litellm",
        command=(
            "{program}",
            *("--config", "{config}", "--host", "127.0.0.1", "--port", "{port}", "--num_workers", "1"),
        ),
        config=_LITELLM,
        config_name="litellm.yaml",
        ready_path="/health/liveliness",
        headers=(("authorization", "Bearer {secret}"),),
        env=(
            ("LITELLM_MASTER_KEY", "{secret}"),
            ("LITELLM_MODE", "PRODUCTION"),
            ("LITELLM_LOG", "ERROR"),
            ("LITELLM_LOCAL_MODEL_COST_MAP", "True"),
            ("LITELLM_DONT_SHOW_FEEDBACK_BOX", "True"),
        ),
        ready_within_s=120.0,
        note="LiteLLM proxy, one worker, production settings of its docs, no database",
    ),
)
