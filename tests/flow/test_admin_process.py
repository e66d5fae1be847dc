"""The admin pages as a process beside the workers: started with them, stopped with them, needed by no request."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.flow.process import Gateway, command, ran, running
from tests.patience import PATIENCE_S, eventually

CONFIG = """
listen: {{port: 0, grace_s: 1}}
engines:
  sim: {{kind: simulated, role: lead, ttft_ms: 0, token_ms: 0, facts: 100}}
models: {{sim: {{engines: [sim]}}}}
memory: {{data_dir: {data}, examples: {{enabled: false}}}}
admin: {{port: {port}}}
"""


def config(folder: Path, port: int = 0) -> str:
    path = folder / "config.yaml"
    path.write_text(CONFIG.format(data=folder / "data", port=port))
    return str(path)


def admin_url(log: str) -> str:
    found = re.findall(r'"event":"admin_listening","url":"([^"]+)"', log)
    return str(found[-1])


def status(url: str) -> int:
    class Stay(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *args: object, **kwargs: object) -> None:
            return None

    try:
        with urllib.request.build_opener(Stay).open(url, timeout=PATIENCE_S) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return int(error.code)


def ask(url: str) -> int:
    body = json.dumps({"model": "sim", "messages": [{"role": "user", "content": "Hello"}]}).encode()
    request = urllib.request.Request(f"{url}/chat/completions", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        return int(answer.status)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """One with pages. Tests that share it leave its log to each other, and nothing else."""
    with running("--config", config(tmp_path_factory.mktemp("pages")), "--admin", "on") as process:
        yield process


@pytest.mark.slow
def test_without_a_terminal_no_password_is_made_and_the_log_says_what_to_do(gateway: Gateway) -> None:
    log = gateway.wait_for_log("admin_without_users")
    assert "understudy admin password" in log and "password  " not in log


@pytest.mark.slow
def test_requests_are_answered_whether_the_pages_live_or_not(gateway: Gateway) -> None:
    url = admin_url(gateway.wait_for_log("admin_listening"))
    assert status(url) == 303 and status(url + "/sign-in") == 200
    os.kill(gateway.helper(), signal.SIGKILL)
    assert ask(gateway.url) == 200
    gateway.wait_for_log("admin_died")
    assert gateway.stop() == 0


@pytest.mark.slow
def test_a_taken_port_costs_the_pages_and_nothing_else(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with running("--config", config(tmp_path, port), "--admin", "on") as gateway:
            gateway.wait_for_log("admin_cannot_listen")
            assert ask(gateway.url) == 200
            assert gateway.stop() == 0


@pytest.mark.slow
def test_a_gateway_without_a_data_folder_has_no_pages(tmp_path: Path) -> None:
    with running("--upstream", "http://127.0.0.1:1/v1", "--exact", "on", "--admin", "on") as gateway:
        assert gateway.stop() == 0
        assert "admin" not in gateway.log()


@pytest.mark.slow
def test_the_first_password_is_shown_once_on_the_terminal(tmp_path_factory: pytest.TempPathFactory) -> None:
    # The terminal shows the folder's name, too: pytest would name it after this test.
    folder = tmp_path_factory.mktemp("terminal")
    path = config(folder)
    said = on_terminal(path, until="password  ")
    password = re.search(r"password  (\S+)", said)
    assert password and "operator" in said
    again = on_terminal(path, until="serving the admin pages at ")
    assert "password" not in again
    users = ran("admin", "users", "--data", str(folder / "data"))[1].splitlines()
    assert users[1].split()[:2] == ["operator", "operator"]


def on_terminal(path: str, until: str) -> str:
    """What `serve` writes to a terminal up to a text and the line's end, before it is stopped."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command("serve", "--config", path), stdout=theirs, stderr=theirs, stdin=subprocess.DEVNULL
    )
    os.close(theirs)
    said, end = "", time.monotonic() + PATIENCE_S
    os.set_blocking(ours, False)
    try:
        while not re.search(re.escape(until) + r"[^\n]*\n", said):
            assert time.monotonic() < end and process.poll() is None, said
            try:
                said += os.read(ours, 65536).decode()
            except BlockingIOError:
                time.sleep(0.02)
    finally:
        process.terminate()
        process.wait(PATIENCE_S)
        os.close(ours)
    return said


@pytest.mark.parametrize("option", ["on", "off"])
def test_the_command_line_has_the_last_word(option: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _SHOW.format(path=config(tmp_path), option=option)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == str(option == "on")


_SHOW = """
from pathlib import Path
from understudy.commands.serve import _with_listen
from understudy.settings.file import load_config
print(_with_listen(load_config(Path({path!r})), {{"admin": {option!r}}}).admin.enabled)
"""


@pytest.mark.slow
def test_a_program_makes_a_key_that_every_worker_takes_and_revokes_it(tmp_path: Path) -> None:
    """The commands, the process of the pages and two workers, over one data folder."""

    def asks(key: str) -> int:
        body = json.dumps({"model": "sim", "messages": [{"role": "user", "content": "Hello"}]}).encode()
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
        try:
            with urllib.request.urlopen(
                urllib.request.Request(f"{process.url}/chat/completions", body, headers), timeout=PATIENCE_S
            ) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            with error:
                return int(error.code)

    def api(method: str, path: str, body: object) -> dict[str, str]:
        headers = {"Authorization": f"Bearer {token}"}
        request = urllib.request.Request(f"{url}{path}", json.dumps(body).encode(), headers, method=method)
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            found: dict[str, str] = json.load(answer)
        return found

    arguments = ("--config", config(tmp_path), "--admin", "on", "--workers", "2")
    with running(*arguments, workers=2) as process:
        url = admin_url(process.wait_for_log("admin_listening"))
        _, said, _ = ran("admin", "token", "create", "--data", str(tmp_path / "data"), "--role", "operator")
        token = said.strip()
        key = api("POST", "/api/keys", {"tenant": "acme", "limits": {"concurrency": 8}})
        eventually_all(lambda: [asks(key["secret"]) for _ in range(10)], 200)
        assert asks(token) == asks("us-unknown") == 401
        assert urllib.request.urlopen(f"{url}/api/openapi.json", timeout=PATIENCE_S).status == 200
        api("DELETE", f"/api/keys/{key['id']}", {})
        eventually_all(lambda: [asks(key["secret"]) for _ in range(10)], 401)


def eventually_all(statuses: Callable[[], list[int]], wanted: int) -> None:
    assert eventually(lambda: set(statuses()) == {wanted})
