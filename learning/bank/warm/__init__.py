"""Plans which examples' prefixes engines keep in their cache, and warms them while traffic is low."""
