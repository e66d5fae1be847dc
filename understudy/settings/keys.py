"""Settings of the gateway's own API keys that are kept in the configuration."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, SecretStr

from understudy.settings.terms import TermsSettings


def _can_be_sent(secret: SecretStr) -> SecretStr:
    from store.people.keys import check_secret

    check_secret(secret.get_secret_value())
    return secret


class KeySettings(TermsSettings):
    """One key by its name. Those made on the command line or over the admin API stand beside it, untouched."""

    secret: Annotated[SecretStr, AfterValidator(_can_be_sent)] = Field(
        description="What clients send, 16 to 512 characters: write ${NAME}. Only a keyed hash of it is stored."
    )
    tenant: str = Field(
        "default", min_length=1, max_length=200, description="Whose key it is; one tenant shares memory."
    )
