"""A certificate for the tests of TLS."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def tls(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that nobody trusts, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = folder / "c.pem", folder / "k.pem"
    words = f"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout {key} -out {certificate}"
    words += " -days 1 -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1"
    # Python 3.13 takes no authority that does not say what its key is for (RFC 5280).
    words += " -addext keyUsage=critical,keyCertSign,digitalSignature"
    try:
        subprocess.run(words.split(), check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs the openssl program to make a certificate")
    return certificate, key
