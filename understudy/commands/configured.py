"""Reads the configuration that a command was given."""

from __future__ import annotations

from pathlib import Path

from understudy.commands.giving_up import give_up
from understudy.settings.config import Config
from understudy.settings.file import ConfigError, load_config


def config_in(path: Path) -> Config:
    """The configuration of a file. One that is wrong ends the process with status 2, saying why."""
    try:
        return load_config(path)
    except ConfigError as error:
        give_up(f"configuration error\n{error}")
