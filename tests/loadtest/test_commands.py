"""The command line: light to import, clear when it refuses."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loadtest.commands import options, run

ROOT = Path(__file__).parents[2]


def test_help_imports_nothing_heavy() -> None:
    script = (
        "import sys\n"
        "from click.testing import CliRunner\n"
        "from loadtest.__main__ import load\n"
        "result = CliRunner().invoke(load, ['--help'])\n"
        "assert result.exit_code == 0 and 'serve-mock' in result.output, result.output\n"
        "heavy = {'numpy', 'rich', 'plotly', 'hdrh', 'aiohttp', 'uvloop', 'orjson', 'asyncio'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, cwd=ROOT)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--base-url", "localhost"], "must look like http"),
        (["--base-url", "http://x", "--rate", "0"], "--rate"),
        (["--base-url", "http://x", "--arrivals", "ramp"], "--rate-to"),
        (["--base-url", "http://x", "--slo", "fast"], "is not a limit"),
        (["--base-url", "http://x", "--tokens-in", "zipf:2"], "is not a distribution"),
        (["--base-url", "http://x", "--header", "novalue"], "name: value"),
        (["--base-url", "http://x", "--api-key-env", "NO_SUCH_VARIABLE"], "NO_SUCH_VARIABLE"),
        (["--base-url", "http://x", "--warmup", "99"], "must be shorter"),
        (["--base-url", "http://x", "--conversations"], "--messages"),
        (["--base-url", "http://x", "--model", "m", "--trace", "absent.csv"], "absent.csv"),
        (["--base-url", "http://127.0.0.1:9", "--model", "m"], "nothing listens at 127.0.0.1:9"),
    ],
)
def test_what_cannot_be_run_is_refused_in_one_line(words: list[str], said: str) -> None:
    from click.testing import CliRunner

    result = CliRunner().invoke(run.command, words)
    assert result.exit_code in (1, 2) and said in result.output, result.output
    assert "Traceback" not in result.output


def test_a_run_from_the_command_line(mock: Any, load: Callable[..., Any], tmp_path: Path) -> None:
    trace = tmp_path / "t.csv"
    trace.write_text("t_s,tokens_in,tokens_out\n" + "".join(f"{k / 10},50,8\n" for k in range(20)))
    result = load("run", "--base-url", mock.url, "--trace", trace, "--speed", 4, "--processes", 2, "--quiet")
    assert result.returncode == 0, result.stderr
    assert "answered 20 of 20" in result.stdout


def test_a_file_that_cannot_be_written_is_named(mock: Any, load: Callable[..., Any]) -> None:
    result = load("run", "--base-url", mock.url, "--requests", 1, "--csv", "/proc/nowhere/r.csv", "--quiet")
    assert result.returncode == 1 and "/proc/nowhere" in result.stderr and "Traceback" not in result.stderr


def test_a_sweep_needs_something_to_look_for(load: Callable[..., Any]) -> None:
    assert "needs an SLO" in load("sweep", "--base-url", "http://x").stderr


def test_a_key_comes_from_the_environment_and_a_given_header_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"headers": (), "api_key_env": "MY_KEY", "endpoint": "chat", "insecure": False}
    monkeypatch.setenv("MY_KEY", "sk-1")
    assert options.make_target("http://x", given).headers == (("authorization", "Bearer sk-1"),)
    own = given | {"headers": (("Authorization", "Bearer mine"),)}
    assert options.make_target("http://x", own).headers == (("Authorization", "Bearer mine"),)


def test_a_missing_extra_is_named_and_not_a_traceback() -> None:
    script = (
        "import sys\n"
        "sys.modules['rich'] = None\n"
        "from loadtest.__main__ import load\n"
        "load(['run', '--base-url', 'http://127.0.0.1:9'], prog_name='load')\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=180, check=False
    )
    assert ended.returncode == 1
    assert "understudy-gateway[load]" in ended.stderr and "Traceback" not in ended.stderr
