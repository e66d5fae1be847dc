"""Carries runs out: claims steps, asks them by what it is handed, and writes what comes of them into their rows."""
