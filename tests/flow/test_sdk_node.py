"""The official Node SDK runs unchanged: only its `baseURL` names the gateway."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.flow.openai_upstream import ERRORS, TEXT, TOOL_CALL, answers
from tests.flow.process import Gateway
from tests.flow.upstream import Call, Upstream

pytestmark = pytest.mark.node
HERE = Path(__file__).parent / "node"
INSTALL_S = 90


def installed(here: Path = HERE) -> Path:
    """A folder with the SDK in it that `here` names, kept between runs; skips where there is no node or no registry."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("node and npm are not installed")
    wanted = b"".join((here / name).read_bytes() for name in ("package.json", "package-lock.json"))
    folder = Path(tempfile.gettempdir()) / f"understudy-node-{hashlib.sha256(wanted).hexdigest()[:16]}"
    if not folder.exists():
        fresh = Path(tempfile.mkdtemp(prefix="understudy-node-new-"))
        for name in ("package.json", "package-lock.json"):
            shutil.copy(here / name, fresh)
        try:
            done = subprocess.run(
                ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline"],
                cwd=fresh,
                capture_output=True,
                text=True,
                timeout=INSTALL_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            pytest.skip(f"npm could not install the SDK within {INSTALL_S} s")
        if done.returncode:
            pytest.skip(f"npm cannot install the SDK: {done.stderr.strip()[-300:]}")
        try:
            fresh.rename(folder)
        except OSError:
            shutil.rmtree(fresh)  # Another run was faster.
    return folder


def script(call: Call) -> None:
    if call.target == b"/v1/chat/completions" and call.json()["model"] == "slow":
        call.begin()
        call.chunk(b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n')
        assert call.hung_up()
    else:
        answers(call)


@pytest.mark.parametrize("folder", [HERE, HERE / "ai"])
def test_the_lock_names_no_registry(folder: Path) -> None:
    """Whoever installs decides where from; hashes say what."""
    lock = json.loads((folder / "package-lock.json").read_text())
    for name, package in lock["packages"].items():
        assert "resolved" not in package
        assert not name or package["integrity"].startswith("sha512-")


def test_the_node_sdk_from_end_to_end(gateway: Gateway, upstream: Upstream) -> None:
    folder = installed()
    upstream.plays(script)
    shutil.copy(HERE / "walk.mjs", folder)
    done = subprocess.run(
        ["node", "walk.mjs", gateway.url],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
        env={k: v for k, v in os.environ.items() if not k.startswith("OPENAI")},
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    text = "".join(TEXT)
    assert seen["chat"] == text and seen["request_id"] == "req_1"
    assert "".join(seen["stream"]) == text
    assert seen["tools"] == [TOOL_CALL]
    assert seen["embeddings"] == [[0.5, -0.25, 0], [0.5, -0.25, 1]]
    assert seen["models"] == ["m"]
    assert seen["file"] == "file-1" and seen["download"] is True
    classes = {
        "bad": "BadRequestError",
        "key": "AuthenticationError",
        "forbidden": "PermissionDeniedError",
        "ghost": "NotFoundError",
        "conflict": "ConflictError",
        "odd": "UnprocessableEntityError",
        "busy": "RateLimitError",
        "broken": "InternalServerError",
    }
    assert seen["errors"] == {
        model: [classes[model], status, error["code"], "req_1"] for model, (status, error) in ERRORS.items()
    }
    assert seen["cut"] == [True, "upstream_stream_broken"]
    assert seen["raw"] == [200, True]
    assert upstream.calls[0].json()["a_parameter_of_next_year"] == [1]
    assert upstream.calls[0].header("x-stainless-lang") == "js"
    slow = next(call for call in upstream.calls if b'"slow"' in call.body)
    assert slow.was_left(), "breaking out of the loop ended the stream upstream"
