"""Turns sums into a report: JSON for machines, CSV for a spreadsheet, text for a terminal, one HTML file for people."""
