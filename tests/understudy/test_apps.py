"""Semantic functions, as far as they need no gateway; tests/flow/test_applications.py has the rest."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import grimp
import pytest

import understudy.apps
from understudy.apps import App, Variable, semantic_function

openai = pytest.importorskip("openai")
ROOMS = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
    "hatch"
]["build"]["targets"]["wheel"]["packages"]


@semantic_function(model="m", output="code", temperature=0)
def write_code(task: str, style: str | Variable = "plain") -> None:
    """Write {{task}} in {{style}} style. {{{{not_a_name}}"""


def test_it_imports_nothing_else_of_ours(tmp_path: Path) -> None:
    graph = grimp.build_graph(*ROOMS, cache_dir=None)
    assert not graph.find_modules_directly_imported_by("understudy.apps")
    shutil.copy(understudy.apps.__file__, tmp_path / "apps.py")
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); import apps; "
        f"print([m for m in sys.modules if m.partition('.')[0] in {[*ROOMS, 'openai']!r}])"
    )
    ended = subprocess.run(
        [sys.executable, "-I", "-c", script, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert ended.stdout.strip() == "[]"


def test_a_template_names_parameters_only() -> None:
    def write(task: str) -> None:
        """Write {{task}} in {{style}}."""

    with pytest.raises(ValueError, match=r"write: \{\{style\}\} is not a parameter"):
        semantic_function(model="m")(write)
    with pytest.raises(ValueError, match=r"\{\{who\}\} is not a parameter"):
        semantic_function(model="m", system="You are {{who}}.")(write_code)
    with pytest.raises(ValueError, match="has no docstring"):
        semantic_function(model="m")(lambda task: task)


def test_calls_are_collected_and_ask_nobody() -> None:
    with openai.OpenAI(base_url="http://127.0.0.1:9/v1", api_key="sk", max_retries=0) as client:
        with App(client) as app:
            first, second = write_code("a game"), write_code(task="a test", style="odd")
            third = write_code("x", style=first)
        assert [each.name for each in (first, second, third)] == ["code", "code_2", "code_3"]
        assert all(each.id is None and each.app is app for each in (first, second, third))
        assert repr(first) == "Variable('code', not sent)"
        with pytest.raises(openai.APIConnectionError) as caught:
            third.get()
        with pytest.raises(openai.APIConnectionError) as again:
            first.get()
        assert again.value is caught.value


def test_mistakes_show_where_they_are_made() -> None:
    with pytest.raises(RuntimeError, match="within `with App"):
        write_code("a game")
    with openai.OpenAI(base_url="http://127.0.0.1:9/v1", api_key="sk") as client:
        with App(client):
            with pytest.raises(TypeError, match=r"task must be a text, a Variable, a list of .*, not set"):
                write_code({3})
            with pytest.raises(ValueError, match="needs an app with a name"):
                App(client).variable("task")
            with pytest.raises(ValueError, match="is written by a call"):
                write_code("x").set("y")
            with pytest.raises(TypeError):
                write_code()
            with App(client):
                inner = write_code("x")
            with pytest.raises(ValueError, match="belongs to another App"):
                write_code(inner)
            assert write_code("y").name == "code_2"


class Asked:
    """A client that keeps what it is to post, and answers as the gateway does."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []

    def post(self, path: str, *, body: dict[str, Any], **_: Any) -> dict[str, Any]:
        self.bodies.append(body)
        names = [out["name"] for step in body["steps"] for out in step["understudy"]["outputs"]]
        return {"variables": {name: {"id": f"var_{name}"} for name in names}}

    def get(self, path: str, **_: Any) -> dict[str, Any]:
        return {"status": "ready", "value": path}


def test_the_first_get_says_what_else_is_waited_for() -> None:
    client: Any = Asked()
    with App(client):
        plan = write_code("a plan")
        files = [write_code(plan, style=f"{n}") for n in range(3)]
        assert files[0].get() == "/variables/var_code_2"
        assert write_code("x").get("throughput") == "/variables/var_code_5"
    assert [body["get"] for body in client.bodies] == [
        {"code_2": "latency", "code_3": "latency", "code_4": "latency"},
        {"code_5": "throughput"},
    ]
