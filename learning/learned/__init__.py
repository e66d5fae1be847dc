"""Learns every kind in one way: trains from rows, compares with what serves, publishes, follows."""
