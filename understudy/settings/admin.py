"""Settings of the admin pages: where they are served, and how long somebody stays signed in."""

from __future__ import annotations

from pydantic import Field

from understudy.settings.group import Settings


class AdminSettings(Settings):
    """The admin pages (see docs/how-to/use-the-admin-pages.md): on where there is a data folder to read from."""

    enabled: bool = Field(True, description="Off serves no admin pages; so does memory without a data_dir.")
    host: str = Field(
        "127.0.0.1",
        description="Address to bind. Anything else needs TLS in front: see docs/how-to/use-the-admin-pages.md.",
    )
    port: int = Field(
        8081, ge=0, le=65535, description="Port; 0 takes a free one and prints it. A taken one is no error."
    )
    https: bool = Field(
        False, description="A proxy in front speaks HTTPS: the session's cookie never travels otherwise."
    )
    idle_min: float = Field(60, gt=0, description="A session unused for so many minutes ends.")
    longest_h: float = Field(12, gt=0, description="A session ends after so many hours in any case.")
    audit_days: float = Field(365, gt=0, description="How long the audit log is kept, in days.")
