"""Secrets are found whole; digests, identifiers, placeholders and code about secrets are left alone."""

from __future__ import annotations

import random
import string

import pytest

from store.admission.credentials import credentials

DRAW = random.Random(7)


def some(letters: str, count: int) -> str:
    return "".join(DRAW.choices(letters, k=count))


ALNUM, HEX = string.ascii_letters + string.digits, "0123456789abcdef"
# Assembled here so that no scanner of repositories takes them for real ones.
KEYS = {
    "OpenAI": "sk-" + "proj-" + some(ALNUM, 48),
    "Anthropic": "sk-" + "ant-api03-" + some(ALNUM, 80),
    "ours": "us-" + some(ALNUM, 43),
    "AWS": "AKIA" + some(string.ascii_uppercase + "234567", 16),
    "GitHub": "ghp" + "_" + some(ALNUM, 36),
    "GitLab": "glpat" + "-" + some(ALNUM, 20),
    "Slack": "xoxb" + "-" + some(string.digits, 12) + "-" + some(ALNUM, 24),
    "Stripe": "sk" + "_live_" + some(ALNUM, 24),
    "Google": "AIza" + some(ALNUM, 35),
    "Hugging Face": "hf" + "_" + some(string.ascii_letters, 34),
    "SendGrid": "SG" + "." + some(ALNUM, 22) + "." + some(ALNUM, 43),
    "npm": "npm" + "_" + some(ALNUM, 36),
    "Databricks": "dapi" + some(HEX, 32),
    "a JWT": "eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0NTY3ODkwIn0." + some(ALNUM, 43),
    "nobody in particular": some(ALNUM, 32),
}
SETTINGS = {
    "postgres://app:{}@db:5432/x": "Zx9kQw2v",
    "redis://:{}@cache/0": "Zx9kQw2v",
    "Server=db;User Id=sa;Password={};Encrypt=true": "Tr0ub4dor&3",
    "DB_PASSWORD={}": "Tr0ub4dor&3",
    'password = "{}"': "Tr0ub4dor&3",
    "my password is {}": "Tr0ub4dor&3",
    "Authorization: Bearer {}": "a81f42c09d77e3b5a81f42c09d77e3b5",
    "aws_secret_access_key = {}": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYzq7LmN0Pqr",
    "GET /x?api_key={}&page=2": "a81f42c09d77e3b5",
    "my PIN is {}": "4821",
}
HARMLESS = (
    "password = os.environ['DB_PASSWORD']",
    "api_key: YOUR_API_KEY",
    "sk-xxxxxxxxxxxxxxxxxxxxxxxx",
    "sk-your-api-key-goes-here-123",
    "postgresql://user:password@localhost/db",
    "postgres://${USER}:${PASSWORD}@db/app",
    "def login(password: str, token: bytes) -> None: ...",
    "The secret is patience. The key is practice.",
    "token = tokenizer.next_token()",
    "commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
    "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    '"integrity": "sha512-qJcA3ld0fVvK2f7RNX8lYvYQzNL1l1mHs0IjiT2aM1DVM1wXyZ=="',
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAUAAAAFCAYAAACNbyblAAAAHElEQVQI12P4",
    "550e8400-e29b-41d4-a716-446655440000",
    "AbstractSingletonProxyFactoryBean and Win32OverlappedIoCompletionPort2",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl me@laptop",
    "1234567890123456789012345",
)


@pytest.mark.parametrize("provider", KEYS)
@pytest.mark.parametrize("sentence", ["{}", "Use {} to log in.", "key='{}'", "401 with {}\nwhy?"])
def test_a_key_is_never_left_readable(provider: str, sentence: str) -> None:
    text = sentence.format(KEYS[provider])
    at = text.index(KEYS[provider])
    assert any(s.start <= at and s.end >= at + len(KEYS[provider]) for s in credentials(text))


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_password_is_never_left_readable(setting: str) -> None:
    value = SETTINGS[setting]
    text = setting.format(value)
    assert value in [text[s.start : s.end] for s in credentials(text)]


def test_the_body_of_a_private_key_is_never_left_readable() -> None:
    for kind in ("", "RSA ", "EC ", "OPENSSH "):
        body = "\n".join(some(ALNUM + "+/", 64) for _ in range(5))
        whole = f"-----BEGIN {kind}PRIVATE KEY-----\n{body}\n-----END {kind}PRIVATE KEY-----"
        for block in (whole, whole.replace("\n", "\\n"), whole.rpartition("\n")[0]):
            found = credentials(f"Why?\n{block}")
            assert any(s.kind == "PRIVATE_KEY" and s.end - s.start >= len(block) - 1 for s in found)


@pytest.mark.parametrize("text", HARMLESS)
def test_look_alikes_are_not_touched(text: str) -> None:
    assert credentials(text) == []
