"""Reads a workflow's definition, and lists everything that is wrong with it."""

from __future__ import annotations

from workflows.declaring.faults import DefinitionError, Fault
from workflows.declaring.world import Does, World
from workflows.definition import Definition

__all__ = ["DefinitionError", "Does", "Fault", "World", "read_definition"]


def read_definition(name: str, value: object, world: World) -> Definition:
    """The definition of a workflow, from its JSON. Raises DefinitionError with every fault that was found."""
    raise NotImplementedError
