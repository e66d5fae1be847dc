"""API keys, operators, their sessions, the audit log, and the installation's secret."""
