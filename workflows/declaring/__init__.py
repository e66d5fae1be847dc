"""Reading a workflow's definition: field by field, then how its names hang together. `workflows.declared` is the way in."""
