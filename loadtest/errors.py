"""What can stop a load test before or while it runs; each message names the thing, its value and what would be right."""

from __future__ import annotations


class LoadError(Exception):
    """Base of everything the load tool tells its user in one sentence."""


class BadTrace(LoadError):
    """A trace or workload file that cannot be read as what it claims to be."""


class EndpointError(LoadError):
    """The endpoint is dead, refuses us, or does not speak OpenAI's API."""


class WorkerDied(LoadError):
    """A client process ended without handing in its results."""


class GeneratorTooSlow(LoadError):
    """The generator was the bottleneck: its figures would describe itself, not the endpoint."""
