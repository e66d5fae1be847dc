"""`understudy learn` knows its subcommands without importing what they stand on."""

from __future__ import annotations

import subprocess
import sys

from click.testing import CliRunner

from understudy.commands.learn import learn


def test_both_kinds_can_be_trained_by_hand() -> None:
    shown = CliRunner().invoke(learn, ["--help"])
    assert shown.exit_code == 0
    for name in ("bandit", "scorer"):
        assert name in shown.output
        assert CliRunner().invoke(learn, [name, "--help"]).exit_code == 0


def test_an_unknown_kind_is_refused() -> None:
    assert CliRunner().invoke(learn, ["telepathy"]).exit_code == 2


def test_naming_the_command_imports_neither_torch_nor_vowpal_wabbit() -> None:
    script = (
        "import sys, understudy.commands.learn; "
        "print([m for m in ('torch', 'vowpal_wabbit_next', 'onnxruntime') if m in sys.modules])"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "[]"
