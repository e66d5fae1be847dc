"""Trends page: cost, savings, quality, TTFT, latency and errors over time."""

from __future__ import annotations

from admin.page import Page
from admin.summaries.trends import trends

TRENDS = Page("/trends", "Trends", "trends.html", trends, charts=True, csv="rows")
