"""Every OpenTelemetry name that is sent, in one table.

Those of GenAI are of semantic conventions v1.41.1, the last release that has them: they moved to a repository of their own
(open-telemetry/semantic-conventions-genai), where names of tokens are changing. A newer set replaces this file.
"""

from __future__ import annotations

from typing import Final

SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.41.1"
"""Where these names are defined, as every export says."""
SCOPE: Final = "understudy"

# ---- attributes of spans and metrics: GenAI
OPERATION: Final = "gen_ai.operation.name"
PROVIDER: Final = "gen_ai.provider.name"
REQUEST_MODEL: Final = "gen_ai.request.model"
RESPONSE_MODEL: Final = "gen_ai.response.model"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
CACHE_READ_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
TOKEN_TYPE: Final = "gen_ai.token.type"
INPUT_MESSAGES: Final = "gen_ai.input.messages"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"

# ---- attributes of spans: everything
ERROR_TYPE: Final = "error.type"
SERVER_ADDRESS: Final = "server.address"
SERVER_PORT: Final = "server.port"
METHOD: Final = "http.request.method"
STATUS: Final = "http.response.status_code"
PATH: Final = "url.path"
SCHEME: Final = "url.scheme"

# ---- attributes of spans: our own
DECISION: Final = "understudy.decision_id"
OUTCOME: Final = "understudy.outcome"
REASON: Final = "understudy.reason"
POLICY: Final = "understudy.policy"
ENGINE: Final = "understudy.engine"
REPLICA: Final = "understudy.replica"
TENANT: Final = "understudy.tenant"
KEY: Final = "understudy.key"
API: Final = "understudy.api"
EXAMPLES: Final = "understudy.examples"
COST_USD: Final = "understudy.cost_usd"
OVERHEAD_S: Final = "understudy.overhead_s"

# ---- metrics, all histograms
DURATION: Final = "gen_ai.client.operation.duration"
TIME_TO_FIRST_CHUNK: Final = "gen_ai.client.operation.time_to_first_chunk"
TOKEN_USAGE: Final = "gen_ai.client.token.usage"

DURATION_S: Final = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
"""Boundaries that the conventions name for durations."""
FIRST_CHUNK_S: Final = (
    0.001,
    0.005,
    0.01,
    0.02,
    0.04,
    0.06,
    0.08,
    0.1,
    0.25,
    0.5,
    0.75,
    1.0,
    2.5,
    5.0,
    7.5,
    10.0,
)
TOKENS: Final = tuple(4**power for power in range(14))
"""Boundaries that the conventions name for tokens: 1 to 67,108,864."""

OPERATIONS: Final = {
    "chat": "chat",
    "responses": "chat",
    "messages": "chat",
    "completions": "text_completion",
    "embeddings": "embeddings",
}
"""The operation of each API that is one; others have no span of an upstream's GenAI operation, but one of its request."""
