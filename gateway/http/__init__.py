"""The server: connections of plain requests, whose way is short."""
