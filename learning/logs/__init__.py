"""Reads recorded logs: asks their requests again, and explains why a smaller engine answers few of them."""
