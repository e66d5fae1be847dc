"""Guardrails: servers of the operator's that are asked about requests and about answers."""
