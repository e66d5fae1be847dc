"""OpenTelemetry: spans and metrics of requests by the GenAI conventions. Only `export` needs the SDK, the extra `otel`."""
