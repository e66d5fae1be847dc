"""Errors that stop a load test; each message names the thing, its value and what would be right."""

from __future__ import annotations


class LoadError(Exception):
    """Base of the errors that the load tool reports in one sentence."""


class BadTrace(LoadError):
    """A trace or workload file cannot be read as its format."""


class EndpointError(LoadError):
    """The endpoint is down, refuses us, or does not speak OpenAI's API."""


class WorkerDied(LoadError):
    """A client process ended without returning its results."""


class GeneratorTooSlow(LoadError):
    """The generator was the bottleneck: the figures would describe it, not the endpoint."""
