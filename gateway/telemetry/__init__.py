"""OpenTelemetry: spans and metrics of requests by the GenAI conventions. Imported only where it is configured."""
