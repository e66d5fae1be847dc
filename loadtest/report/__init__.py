"""Turns totals into a report: JSON, CSV, text for a terminal, and one HTML page."""
