"""The command line: quick help, errors that name key, value and remedy, and exit status 2."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.flow.client import once
from tests.flow.process import ran, running
from tests.flow.upstream import Upstream
from understudy.__main__ import main


@pytest.mark.parametrize("arguments", [["--help"], ["serve", "--help"]])
def test_help_says_what_there_is_without_loading_the_gateway(arguments: list[str]) -> None:
    status, said, _ = ran(*arguments)
    assert status == 0 and ("serve" in said or "--upstream" in said)
    loaded = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; from understudy.__main__ import main\n"
            f"try: main({arguments!r})\nexcept SystemExit: pass\n"
            "print([m for m in ('aiohttp', 'onnxruntime', 'usearch', 'numpy') if m in sys.modules])",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert loaded.stdout.splitlines()[-1] == "[]", "help is quick because nothing heavy is imported for it"


WRONG = {
    "no upstream at all": ([], ["--upstream URL", "--config FILE"]),
    "no scheme": (["--upstream", "api.openai.com/v1"], ["upstream.base_url", "api.openai.com/v1", "http"]),
    "another scheme": (["--upstream", "ftp://x/v1"], ["upstream.base_url", "ftp://x/v1", "https://"]),
    "a query": (["--upstream", "http://x/v1?a=b"], ["upstream.base_url", "query"]),
    "a port beyond the last": (
        ["--upstream", "http://x/v1", "--port", "70000"],
        ["listen.port", "70000", "65535"],
    ),
    "a negative grace": (["--upstream", "http://x/v1", "--grace", "-1"], ["listen.grace_s", "-1", "0"]),
    "no time at all": (
        ["--upstream", "http://x/v1", "--upstream-timeout", "0"],
        ["upstream.advanced.connect_s", "0", "greater than 0"],
    ),
    "an endpoint for a base URL": (
        ["--upstream", "http://x/v1/chat/completions"],
        ["upstream.base_url", "before the endpoint", "http://x/v1 is right"],
    ),
    "no URL at all": (["--upstream", "http://x:port/v1"], ["upstream.base_url", "is not a URL"]),
    "the admin pages on the same port": (
        ["--upstream", "http://x/v1", "--data", "/tmp/x", "--port", "8081"],
        ["listen.port", "admin.port", "8081", "--admin off"],
    ),
    "small without large": (["--small", "http://x/v1=m"], ["--small", "--large"]),
    "no model": (
        ["--small", "http://x/v1", "--large", "http://x/v1=m"],
        ["--small", "http://x/v1", "URL=MODEL"],
    ),
    "a word for a number": (["--upstream", "http://x/v1", "--port", "many"], ["--port", "many"]),
    "no such option": (["--upstraem", "http://x/v1"], ["--upstraem", "--upstream"]),
    "a file that is not there": (["--config", "/no/such.yaml"], ["/no/such.yaml", "No such file"]),
}


@pytest.mark.parametrize(("arguments", "words"), WRONG.values(), ids=WRONG)
def test_a_wrong_option_is_named_with_its_value_and_exits_2(arguments: list[str], words: list[str]) -> None:
    port = [] if "--port" in arguments else ["--port", "0"]
    done = CliRunner().invoke(main, ["serve", *port, *arguments])
    assert done.exit_code == 2 and isinstance(done.exception, SystemExit)
    said = done.output
    for word in words:
        assert word in said


FILES = {
    "not YAML": ("upstream: [", ["line 1"]),
    "a list": ("- a\n", ["a mapping", "a list"]),
    "an unknown key": (
        "upstream: {base_url: http://x/v1}\nlisten: {prot: 1}\n",
        ["listen.prot", "no such setting"],
    ),
    "a wrong type": ("upstream: {base_url: http://x/v1}\nlisten: {port: many}\n", ["listen.port", "'many'"]),
    "a key twice": (
        "upstream: {base_url: http://x/v1}\nlisten: {port: 1}\nlog: {level: info}\nlisten: {port: 2}\n",
        ["line 4", "'listen'", "second time", "first in line 2"],
    ),
    "a key twice in one line": (
        "upstream: {base_url: http://x/v1, base_url: http://y/v1}\n",
        ["line 1", "'base_url'", "second time"],
    ),
    "a key twice further down": (
        "upstream:\n  base_url: http://x/v1\n  base_url: http://y/v1\n",
        ["line 3", "'base_url'", "second time"],
    ),
    "an endpoint for a base URL": (
        "engines: {a: {base_url: 'https://x/v1/chat/completions/'}}\n",
        ["engines.a.base_url", "https://x/v1 is right"],
    ),
    "an engine twice": (
        "engines: {a: {base_url: http://localhost/v1}}\nmodels: {m: {engines: [a, a]}}\n",
        ["models.m.engines", "twice", "a, a"],
    ),
    "engines as a list": (
        "engines: [{name: a}]\n",
        ["engines is a list", "a mapping is right"],
    ),
    "a configuration of LiteLLM": (
        "model_list: [{model_name: m}]\nlitellm_settings: {}\n",
        ["LiteLLM", "understudy import-config FILE"],
    ),
    "a slip in a name": (
        "upstream: {base_url: http://x/v1}\nlisten: {wokers: 2}\n",
        ["listen.wokers", "did you mean listen.workers?"],
    ),
    "an unset variable": (
        "upstream: {base_url: http://x/v1, api_key: '${NO_SUCH_KEY}'}\n",
        ["upstream.api_key", "NO_SUCH_KEY"],
    ),
    "an unknown engine": (
        "upstream: {base_url: http://x/v1}\nmodels: {m: {engines: [ghost]}}\n",
        ["models.m", "'ghost'", "none are configured"],
    ),
    "one engine for few_shot": (
        "engines: {a: {base_url: http://x/v1}}\nmodels: {m: {engines: [a], policy: few_shot}}\n",
        ["models.m", "few_shot", "two engines"],
    ),
    "a key in the URL": (
        "upstream: {base_url: 'http://user:hunter2@x/v1'}\n",
        ["upstream.base_url", "api_key"],
    ),
    "empty": ("", ["upstream.base_url"]),
}


@pytest.mark.parametrize(("text", "words"), FILES.values(), ids=FILES)
def test_a_wrong_file_is_explained_and_exits_2(tmp_path: Path, text: str, words: list[str]) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    done = CliRunner().invoke(main, ["serve", "--config", str(path), "--port", "0"])
    assert done.exit_code == 2 and isinstance(done.exception, SystemExit)
    said = done.output
    assert "pydantic" not in said
    for word in words:
        assert word in said


def test_a_secret_in_a_wrong_file_is_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(
        "upstream: {base_url: http://x/v1, api_key: [sk-canary-1], headers: {Authorization: [sk-canary-2]}}\n"
    )
    status, said, also_said = ran("serve", "--config", str(path), "--port", "0")
    assert status == 2 and "upstream.api_key" in also_said
    assert "canary" not in said + also_said


def test_a_password_in_a_wrong_url_is_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("upstream: {base_url: 'http://me:canary@x/v1'}\n")
    status, said, also_said = ran("serve", "--config", str(path), "--port", "0")
    assert status == 2 and "must not carry credentials" in also_said
    assert "canary" not in said + also_said


@pytest.mark.parametrize(
    "url",
    ["https://x/v1?api_key=canary", "x/v1?key=canary", "https://x/v1#canary", "ftp://me:canary@x/v1?a=b"],
)
@pytest.mark.parametrize("option", ["--upstream", "--small"])
def test_a_key_in_a_wrong_url_is_not_shown(url: str, option: str) -> None:
    more = ["--large", "https://x/v1=m"] if option == "--small" else []
    for value in (url, url + "=m") if more else (url,):
        done = CliRunner().invoke(main, ["serve", "--port", "0", option, value, *more])
        assert done.exit_code == 2 and "canary" not in done.output


def test_the_admin_port_is_compared_after_the_options_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(f"upstream: {{base_url: http://x/v1}}\nmemory: {{data_dir: {tmp_path}}}\n")
    for options in (["--port", "8081"], ["--host", "0.0.0.0", "--port", "8081"]):
        done = CliRunner().invoke(main, ["serve", "--config", str(path), *options])
        assert done.exit_code == 2 and "admin.port are both 8081" in done.output


@pytest.mark.slow
def test_a_configured_key_replaces_the_clients_and_never_comes_back(
    upstream: Upstream, tmp_path: Path
) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(
        f"upstream: {{base_url: '{upstream.url}', api_key: '${{TEST_KEY}}'}}\nlog: {{level: debug}}\n"
    )
    with running("--config", str(path), environment={"TEST_KEY": "sk-canary-9"}) as gateway:
        answer = once(
            gateway.port,
            "GET",
            "/v1/models?key=a&b=%20",
            headers=[("Authorization", "Bearer mine"), ("api-key", "mine too"), ("X-Api-Key", "and mine")],
        )
        call = upstream.call()
        assert call.target == b"/v1/models?key=a&b=%20" and call.header("x-api-key") is None
        assert call.values("authorization") == ["Bearer sk-canary-9"]
        assert call.header("api-key") is None
        upstream.plays(lambda call: call.reset())
        failed = once(gateway.port, "GET", "/v1/models")
        assert failed.status == 502
        seen = repr(answer) + repr(failed) + once(gateway.port, "GET", "/metrics").body.decode()
        gateway.stop()
        assert "canary" not in seen + gateway.log()
