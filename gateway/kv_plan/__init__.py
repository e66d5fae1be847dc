"""Which examples' prefixes engines keep warm: planned in the process that replays, followed by the workers."""
