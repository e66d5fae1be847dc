"""Settings of the admin pages: where they are served, and how long somebody stays signed in."""

from __future__ import annotations

from pydantic import Field

from understudy.settings.group import Settings


class AdminAdvanced(Settings):
    """Less common settings of the admin pages."""

    idle_min: float = Field(60, gt=0, description="Minutes after which an unused session ends.")
    longest_h: float = Field(12, gt=0, description="Hours after which a session ends in any case.")
    audit_days: float = Field(365, gt=0, description="Days for which the audit log is kept.")


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
        False, description="Whether a proxy in front speaks HTTPS; the session's cookie then requires it."
    )
    advanced: AdminAdvanced = Field(AdminAdvanced(), description="Less common settings.")
