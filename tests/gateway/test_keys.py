"""What among a request's headers is a credential, and that different ones are never told alike."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict

from engines.headers import CREDENTIALS
from gateway.keys import CredentialTenants, Sender, credentials

NAMES = (*CREDENTIALS, "x-customer")
SEVERAL = st.lists(
    st.tuples(st.sampled_from(NAMES), st.text("abB ", min_size=1, max_size=3).map("k{}".format)),
    min_size=2,
    max_size=4,
)


def told(*headers: tuple[str, str]) -> str | None:
    return credentials(CIMultiDict(headers), NAMES)


@pytest.mark.parametrize(
    "header", [("Authorization", "Bearer k"), ("authorization", "bearer  k"), ("api-key", "k")]
)
def test_a_token_that_stands_alone_is_the_credential(header: tuple[str, str]) -> None:
    assert told(header, ("Accept", "*/*")) == "k"


def test_the_same_secret_in_another_header_is_another_credential() -> None:
    texts = {told((name, "k")) for name in NAMES if name not in ("Authorization", "api-key")}
    assert len(texts) == len(NAMES) - 2 and "k" not in texts


@pytest.mark.parametrize(
    "header",
    [("Authorization", ""), ("Authorization", "Bearer "), ("Cookie", "AWSALB=1; __cf_bm=2"), ("Accept", "k")],
)
def test_what_is_empty_or_says_nothing_of_who_asks_is_no_credential(header: tuple[str, str]) -> None:
    assert told(header) is None


@given(SEVERAL, SEVERAL)
def test_several_credentials_are_told_alike_if_they_are_the_same_in_any_order(
    one: list[tuple[str, str]], other: list[tuple[str, str]]
) -> None:
    assert (told(*one) == told(*other)) == (sorted(one) == sorted(other))
    assert told(*one) == told(*reversed(one))


def test_who_sends_none_is_anonymous_unless_all_of_them_are_one_tenant() -> None:
    nobody: CIMultiDict[str] = CIMultiDict()
    assert CredentialTenants(str).identified(nobody) == Sender("default", anonymous=True)
    assert CredentialTenants(str, anonymous=True).identified(nobody) == Sender("default")
