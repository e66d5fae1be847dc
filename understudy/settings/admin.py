"""Settings of the admin pages: where they are served, and how long somebody stays signed in."""

from __future__ import annotations

from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr, field_validator

from understudy.settings.client_key import is_loopback
from understudy.settings.group import Settings
from understudy.settings.replay import time_zone as zone_called


class AdminAdvanced(Settings):
    """Less common settings of the admin pages."""

    idle_min: float = Field(60, gt=0, description="Minutes after which an unused session ends.")
    longest_h: float = Field(12, gt=0, description="Hours after which a session ends in any case.")
    audit_days: float = Field(365, gt=0, description="Days for which the audit log is kept.")


RoleName = Literal["viewer", "viewer-content", "operator"]


def _provider_url(url: str) -> str:
    try:
        parsed = urlsplit(url)
        host = parsed.hostname or ""
    except ValueError:
        raise ValueError("is not a URL; https://id.example.com is right") from None
    if parsed.username or parsed.query or parsed.fragment or not host:
        raise ValueError(
            "must be a URL without credentials, query and fragment, such as https://id.example.com"
        )
    if parsed.scheme != "https" and not (parsed.scheme == "http" and is_loopback(host)):
        raise ValueError("must be an https:// URL, since what comes from there says who is let in")
    return url


ProviderURL = Annotated[str, AfterValidator(_provider_url)]


class OidcAdvanced(Settings):
    """Less common settings of signing in with an OpenID provider."""

    default_role: RoleName | None = Field(
        None, description="Role of those whom role_claim gives none; null lets them not in."
    )
    scopes: tuple[str, ...] = Field(
        ("openid", "profile", "email"),
        description="What the provider is asked for; openid must be among them.",
    )

    @field_validator("scopes")
    @classmethod
    def _with_openid(cls, scopes: tuple[str, ...]) -> tuple[str, ...]:
        if "openid" not in scopes or not all(scope.isprintable() and " " not in scope for scope in scopes):
            raise ValueError("must be words, openid among them")
        return scopes


class OidcSettings(Settings):
    """Signing in with an OpenID provider, beside passwords. Needs the extra `oidc`."""

    issuer: ProviderURL = Field(description="The provider, exactly as it calls itself.")
    client_id: str = Field(min_length=1, description="The admin pages' id at the provider.")
    client_secret: SecretStr | None = Field(
        None, description="Its secret: write ${NAME}. Null: a public client."
    )
    public_url: ProviderURL = Field(
        description="Where browsers reach the admin pages; /sign-in/oidc/callback below it is what the provider must allow."
    )
    role_claim: str = Field(
        "groups",
        min_length=1,
        description="Claim of the ID token that gives the role; realm_access.roles is one within one.",
    )
    roles: dict[str, RoleName] = Field(
        min_length=1, description="Roles by values of the claim, such as {sre: operator}; the highest counts."
    )
    advanced: OidcAdvanced = Field(OidcAdvanced(), description="Less common settings.")

    @field_validator("public_url")
    @classmethod
    def _without_path(cls, url: str) -> str:
        if urlsplit(url).path.strip("/"):
            raise ValueError("must be without a path: the admin pages are at the root of their address")
        return url.rstrip("/")


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
    time_zone: str = Field("UTC", description="Of times on the pages and in their filters, e.g. Europe/Rome.")
    oidc: OidcSettings | None = Field(
        None, description="Signing in with an OpenID provider; null for passwords only."
    )
    advanced: AdminAdvanced = Field(AdminAdvanced(), description="Less common settings.")

    @field_validator("time_zone")
    @classmethod
    def _zone_exists(cls, zone: str) -> str:
        zone_called(zone)
        return zone
