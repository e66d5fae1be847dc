"""What was learnt, in versions, and the settings that operators changed while the gateway ran."""
