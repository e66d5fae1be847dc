"""Signing in with an OpenID provider, over real sockets: who is let in as what, and what is not believed."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from joserfc.jwk import RSAKey
from yarl import URL

from admin.oidc import CALLBACK, NotSignedIn, OidcOptions, OidcSignIn
from tests.admin.openid_provider import CLIENT, SECRET, Provider, provider
from tests.admin.site import Got, Person, Site, site
from understudy.settings.file import ConfigError, parse_config

OURS = b"of the installation"
ROLES = {"sre": "operator", "everybody": "viewer"}


def settings(issuer: str, public_url: str = "http://127.0.0.1:1") -> dict[str, Any]:
    return {
        "issuer": issuer,
        "client_id": CLIENT,
        "client_secret": SECRET,
        "public_url": public_url,
        "roles": ROLES,
    }


@pytest.fixture
async def idp() -> AsyncIterator[Provider]:
    async with provider() as made:
        yield made


@pytest.fixture
async def pages(tmp_path: Path, idp: Provider) -> AsyncIterator[Site]:
    async with site(tmp_path, admin={"oidc": settings(idp.url)}) as made:
        yield made


async def sign_in(pages: Site, person: Person, *, to: str = "/tenants") -> Got:
    """As a browser would; ends at the answer to the way back."""
    begun = await person.get(f"/sign-in/oidc?next={to}")
    assert begun.status == 303, begun.text
    async with person.session.get(begun.headers["Location"], allow_redirects=False) as answer:
        back = answer.headers["Location"]
    return await person.get(CALLBACK + "?" + back.partition("?")[2])


async def test_a_person_of_the_provider_is_let_in_with_the_role_of_the_claim(
    pages: Site, idp: Provider
) -> None:
    ann = pages.stranger()
    assert 'href="/sign-in/oidc?next=' in (await ann.get("/sign-in?next=/tenants")).text
    got = await sign_in(pages, ann)
    assert got.status == 200 and 'content="0; url=/tenants"' in got.text
    shown = await ann.get("/tenants")
    assert shown.status == 200 and "oidc:ann@example.org:" in shown.text
    (account,) = pages.sources.store.operators.list()
    assert account.role == "operator" and account.name.startswith("oidc:ann@example.org:")
    (row,) = pages.sources.store.audit.page()
    assert (row.action, row.user, row.detail["by"]) == ("sign-in", account.name, "oidc")

    idp.claims["groups"] = ["everybody"]
    await sign_in(pages, pages.stranger())
    assert (await ann.get("/tenants")).status == 200
    assert pages.sources.store.operators.list()[0].role == "viewer", "also of the session before"
    idp.claims["sub"] = "another"
    await sign_in(pages, pages.stranger())
    assert len({user.name for user in pages.sources.store.operators.list()}) == 2, "one name, two people"


async def test_no_password_opens_an_account_of_the_provider(pages: Site) -> None:
    await sign_in(pages, pages.stranger())
    (account,) = pages.sources.store.operators.list()
    for password in ("none", "", account.password_hash):
        assert (await pages.stranger().sign_in(account.name, password)).status == 401
    with pytest.raises(ValueError, match="has a password"):
        pages.sources.store.operators.put("ann", "viewer", "a hash")
        pages.sources.store.operators.put_external("ann", "operator")


def past(idp: Provider) -> None:
    idp.claims |= {"exp": int(time.time()) - 3600, "iat": int(time.time()) - 7200}


def unsigned(idp: Provider) -> None:
    idp.algorithm = "none"


def signed_with_the_public_key(idp: Provider) -> None:
    idp.algorithm = "HS256"


def signed_with_another_key(idp: Provider) -> None:
    idp.signs = RSAKey.generate_key(2048, {"kid": "one"})


MISBEHAVIOUR: dict[str, Any] = {
    "another audience": lambda idp: idp.claims.update(aud="somebody else"),
    "several audiences": lambda idp: idp.claims.update(aud=[CLIENT, "other"], azp="other"),
    "another issuer": lambda idp: idp.claims.update(iss="http://127.0.0.1:2"),
    "another nonce": lambda idp: idp.claims.update(nonce="replayed"),
    "no nonce": lambda idp: idp.claims.update(nonce=None),
    "no expiry": lambda idp: idp.claims.update(exp=None),
    "nobody": lambda idp: idp.claims.update(sub=""),
    "no role": lambda idp: idp.claims.update(groups=["strangers"]),
    "a role that is no text": lambda idp: idp.claims.update(groups={"sre": True}),
    "past": past,
    "unsigned": unsigned,
    "signed with the public key": signed_with_the_public_key,
    "signed with another key": signed_with_another_key,
    "refused": lambda idp: setattr(idp, "error", "access_denied"),
    "no token": lambda idp: setattr(idp, "token", {"access_token": "a"}),
    "garbage": lambda idp: setattr(idp, "token", {"id_token": "a.b.c"}),
}


async def test_what_cannot_be_believed_lets_nobody_in(pages: Site, idp: Provider) -> None:
    clean = dict(vars(idp)) | {"claims": {}}
    for name, misbehave in MISBEHAVIOUR.items():
        vars(idp).update(clean | {"claims": {}})
        misbehave(idp)
        person = pages.stranger()
        got = await sign_in(pages, person)
        assert got.status == 403, name
        assert (await person.get("/overview")).status == 303, name
    assert not pages.sources.store.operators.any()
    rows = pages.sources.store.audit.page()
    assert len(rows) == len(MISBEHAVIOUR) and {row.outcome for row in rows} == {"refused"}


async def test_a_state_is_taken_once_and_from_the_browser_it_was_given_to(pages: Site, idp: Provider) -> None:
    ann, mallory = pages.stranger(), pages.stranger()
    begun = await ann.get("/sign-in/oidc")
    async with ann.session.get(begun.headers["Location"], allow_redirects=False) as answer:
        back = CALLBACK + "?" + answer.headers["Location"].partition("?")[2]
    assert (await mallory.get(back)).status == 403, "nobody is signed in by another's link"
    assert (await ann.get(back)).status == 403, "and then it is spent"
    assert not pages.sources.store.operators.any()
    for query in ("", "?code=x", "?state=x&code=x", "?error=%3Cscript%3E"):
        got = await ann.get(CALLBACK + query)
        assert got.status == 403 and "<script>" not in got.text.partition("<main")[2]
    assert "/token" not in idp.asked


async def test_a_sign_in_may_come_back_to_another_process(idp: Provider) -> None:
    one, other, stranger = (
        OidcSignIn(OidcOptions(idp.url, CLIENT, "http://127.0.0.1:1", ROLES, client_secret=SECRET), secret)
        for secret in (OURS, OURS, b"another")
    )
    begun = await one.begin("/tenants?a=ü.b")
    async with aiohttp.ClientSession() as session, session.get(begun.url, allow_redirects=False) as answer:
        query = dict(URL(answer.headers["Location"]).query)
    later = begun.cookie.replace("tenants", "audit")
    for finishing, cookie in ((stranger, begun.cookie), (one, later), (one, "x.y"), (one, "")):
        with pytest.raises(NotSignedIn, match="not begun here"):
            await finishing.finish(query, cookie)
    assert (await other.finish(query, begun.cookie)).to == "/tenants?a=ü.b"
    with pytest.raises(NotSignedIn, match="not begun here"):
        await other.finish(query, begun.cookie)


async def test_a_sign_in_that_took_too_long_is_begun_anew(
    idp: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = OidcSignIn(OidcOptions(idp.url, CLIENT, "http://127.0.0.1:1", ROLES), OURS)
    begun = await made.begin("/tenants")
    monkeypatch.setattr("admin.oidc._UNDER_WAY_S", -1.0)
    with pytest.raises(NotSignedIn, match="ten minutes"):
        await made.finish({"state": URL(begun.url).query["state"], "code": "c"}, begun.cookie)


async def test_a_new_key_of_the_provider_is_fetched_and_another_name_is_not_taken(
    pages: Site, idp: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    await sign_in(pages, pages.stranger())
    monkeypatch.setattr("admin.oidc._KEYS_AGAIN_S", 0.0)
    idp.key = RSAKey.generate_key(2048, {"kid": "two"})
    assert (await sign_in(pages, pages.stranger())).status == 200
    assert idp.asked.count("/keys") == 2 and idp.asked.count("/.well-known/openid-configuration") == 1
    idp.issuer = "http://127.0.0.1:2"
    with pytest.raises(NotSignedIn, match="another name"):
        await OidcSignIn(OidcOptions(idp.url, CLIENT, "http://127.0.0.1:1", ROLES), OURS).begin("/overview")
    with pytest.raises(NotSignedIn, match="cannot be reached"):
        await OidcSignIn(OidcOptions("http://127.0.0.1:1", CLIENT, "http://127.0.0.1:1", ROLES), OURS).begin(
            "/overview"
        )


async def test_without_a_provider_there_is_no_such_way(tmp_path: Path) -> None:
    async with site(tmp_path) as made:
        person = made.stranger()
        assert "/sign-in/oidc" not in (await person.get("/sign-in")).text
        assert (await person.get("/sign-in/oidc")).status != 200


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"issuer": "http://id.example.com"}, "https://"),
        ({"issuer": "https://user:pass@id.example.com"}, "without credentials"),
        ({"issuer": "id.example.com"}, "must be a URL"),
        ({"public_url": "https://gateway.example.com/admin"}, "without a path"),
        ({"roles": {}}, "roles"),
        ({"roles": {"sre": "root"}}, "roles.sre"),
        ({"client_id": ""}, "client_id"),
        ({"advanced": {"scopes": ["email"]}}, "openid"),
    ],
    ids=lambda value: str(value)[:50],
)
def test_settings_that_cannot_be_right_are_refused(change: dict[str, Any], told: str) -> None:
    data = {
        "upstream": {"base_url": "http://127.0.0.1:9/v1"},
        "admin": {"oidc": settings("https://id.example.com") | change},
    }
    with pytest.raises(ConfigError) as refused:
        parse_config(data)
    assert (
        told in str(refused.value) and SECRET not in str(refused.value) and "pass@" not in str(refused.value)
    )
