"""Whether strangers could use the operator's keys: an address that others reach, and no key of the gateway's own."""

from __future__ import annotations

from understudy.settings.client_key import has_credential, is_loopback
from understudy.settings.config import Config
from understudy.settings.engines import HTTPEngine


def exposure(config: Config, *, has_keys: bool) -> str | None:
    """Why the gateway must not listen as configured, and what to do about it; None where it may."""
    listen = config.listen
    if has_keys or listen.open or is_loopback(listen.host):
        return None
    engines = {f"engines.{name}": one for name, one in config.engines.items() if isinstance(one, HTTPEngine)}
    upstream = {"upstream": config.upstream} if config.upstream is not None else {}
    used = [name for name, one in (upstream | engines).items() if has_credential(one)]
    if not used:
        return None
    folder = config.memory.data_dir if config.memory is not None else None
    key = (
        f"`understudy keys create --data {folder}`" if folder else "memory.data_dir, `understudy keys create`"
    )
    return (
        f"listen.host is {listen.host!r}, so others than this machine can ask, and there is no gateway key: whoever reaches "
        f"the port would use your key of {', '.join(used)}. Create a key ({key}), listen on 127.0.0.1, or say that it is "
        "meant to be open: listen.open: true, --open"
    )
