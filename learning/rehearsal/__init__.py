"""Estimates what a small engine would be worth on requests with recorded answers, before anything is switched on."""
