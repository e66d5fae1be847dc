"""Rules of the house that no linter knows."""

from __future__ import annotations

import ast
import graphlib
import importlib.metadata
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
ROOMS = tuple(PROJECT["hatch"]["build"]["targets"]["wheel"]["packages"])
SOURCES = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))
TESTED_BY = {
    "understudy/live_check.py": "understudy/commands/test_check_live.py",
    "understudy/settings/secrets.py": "understudy/settings/test_bad_configurations.py",
    "understudy/settings/users.py": "understudy/settings/test_bad_configurations.py",
    "understudy/setup/access.py": "flow/test_access.py",
    "admin/summaries/request_content.py": "admin/test_summaries_request_content.py",
    # Wiring, and what only means something with sockets around it: tested by whole requests.
    "understudy/__main__.py": "flow/process.py",
    "understudy/build.py": "flow/line.py",
    "understudy/processes/run.py": "flow/line.py",
    "engines/telling_usage.py": "flow/providers/test_telling_usage.py",
    "gateway/guardrails/guardrail.py": "flow/test_guardrails.py",
    "gateway/guardrails/passed_on.py": "flow/test_guardrails.py",
    "gateway/guardrails/stage.py": "flow/test_guardrails.py",
    "understudy/setup/guardrails.py": "flow/test_guardrails.py",
    "understudy/settings/guardrails.py": "flow/test_guardrails.py",
    "understudy/setup/telemetry.py": "flow/test_telemetry.py",
    "understudy/settings/telemetry.py": "flow/test_telemetry.py",
    "understudy/setup/scraping.py": "flow/test_scraping.py",
    "understudy/commands/import_config.py": "understudy/importing/test_litellm.py",
    "understudy/commands/exported_requests.py": "understudy/commands/test_export.py",
    "understudy/importing/litellm_deployments.py": "understudy/importing/test_litellm.py",
    "understudy/importing/litellm_providers.py": "understudy/importing/test_litellm.py",
    "understudy/importing/report.py": "understudy/importing/test_litellm.py",
    "store/decisions/exported.py": "store/contract/test_exported.py",
    "understudy/processes/supervisor.py": "flow/test_workers.py",
    "understudy/processes/orders.py": "flow/test_reload.py",
    "understudy/processes/wanted.py": "understudy/setup/test_students.py",
    "understudy/commands/reload.py": "flow/test_reload.py",
    "understudy/settings/reloading.py": "flow/test_reload.py",
    "understudy/opening.py": "flow/test_reload.py",
    "understudy/cannot_start.py": "flow/test_configured_keys.py",
    "store/backup.py": "understudy/test_archive.py",
    "store/sqlite/copying.py": "understudy/test_archive.py",
    "store/decisions/kept_costs.py": "store/contract/test_deleting.py",
    "store/tenant_scope.py": "understudy/background/test_retention.py",
    "understudy/settings/retention.py": "understudy/background/test_retention.py",
    "understudy/setup/tasks.py": "flow/test_line_tasks.py",
    "understudy/setup/webhooks.py": "flow/test_webhooks.py",
    "gateway/booking.py": "flow/test_booking.py",
    "gateway/encodings.py": "flow/test_booking.py",
    "gateway/http/framing.py": "gateway/test_server.py",
    "understudy/setup/keys.py": "flow/test_configured_keys.py",
    "understudy/commands/auditing.py": "understudy/commands/test_keys.py",
    "understudy/settings/terms.py": "understudy/settings/test_keys.py",
    "understudy/commands/terms_options.py": "understudy/commands/test_keys.py",
    "admin/api/route.py": "admin/api/test_server.py",
    "understudy/memory.py": "flow/test_line_examples.py",
    "understudy/commands/demo.py": "flow/test_demo.py",
    "simulation/demo/document_question.py": "flow/test_demo.py",
    "understudy/commands/workflow_drawing.py": "understudy/commands/test_workflow.py",
    "understudy/setup/assumed_profile.py": "understudy/commands/test_workflow.py",
    "workflows/declaring/faults.py": "workflows/test_declared.py",
    "workflows/declaring/fields.py": "workflows/test_declared.py",
    "workflows/declaring/names.py": "workflows/test_declared.py",
    "workflows/declaring/world.py": "workflows/test_declared.py",
    "gateway/stages/stage.py": "gateway/test_pipeline.py",
    "gateway/stages/engines.py": "gateway/test_pipeline.py",
    "gateway/stages/policy.py": "gateway/test_pipeline.py",
    "gateway/stages/tries.py": "gateway/test_pipeline.py",
    "gateway/stages/replaying.py": "gateway/test_pipeline.py",
    "gateway/stages/exact.py": "flow/test_line_exact.py",
    "gateway/stages/single_flight.py": "flow/test_line_single_flight.py",
    "gateway/stages/similar.py": "flow/test_line_semantic.py",
    "gateway/stages/guardrails.py": "flow/test_guardrails.py",
    "gateway/stages/reach.py": "flow/test_access.py",
    "gateway/stages/limits.py": "flow/test_line_limits.py",
    "gateway/endpoints/model_endpoint.py": "flow/test_line_exact.py",
    "gateway/endpoints/by_pipeline.py": "flow/test_line_exact.py",
    "gateway/endpoints/runs.py": "flow/test_line_runs.py",
    "gateway/endpoints/steps.py": "flow/test_line_runs.py",
    "gateway/endpoints/variables.py": "flow/test_line_runs.py",
    "gateway/endpoints/collections.py": "flow/test_line_workflows.py",
    "engines/run_call.py": "flow/test_line_workflows.py",
    "gateway/runs/engine.py": "flow/test_line_workflows.py",
    "gateway/stages/workflow.py": "flow/test_line_workflows.py",
    "gateway/endpoints/workflows.py": "flow/test_line_workflows.py",
    "workflows/running/catalogue.py": "flow/test_line_workflows.py",
    "understudy/setup/workflows.py": "flow/test_line_workflows.py",
    "gateway/runs/events.py": "flow/test_line_runs.py",
    "gateway/runs/follow.py": "flow/test_line_runs.py",
    "gateway/runs/shown.py": "flow/test_line_runs.py",
    "gateway/runs/intake.py": "flow/test_line_runs.py",
    "workflows/running/claims.py": "workflows/running/test_runs.py",
    "workflows/running/elsewhere.py": "flow/test_runs_workers.py",
    "gateway/runs/step_door.py": "workflows/running/test_runs.py",
    "workflows/running/door.py": "workflows/running/test_runs.py",
    "workflows/running/counting.py": "workflows/running/test_saving.py",
    "workflows/running/asking.py": "workflows/running/test_runs.py",
    "workflows/running/live.py": "workflows/running/test_runs.py",
    "workflows/running/saving.py": "workflows/running/test_saving.py",
    "workflows/running/expected.py": "workflows/running/test_runs.py",
    "workflows/running/primitives.py": "workflows/running/test_flows.py",
    "workflows/running/restoring.py": "workflows/running/test_flow_lives.py",
    "gateway/runs/metrics.py": "flow/test_line_runs.py",
    "gateway/query.py": "flow/test_line_demonstrations.py",
    "understudy/setup/runs.py": "flow/test_line_runs.py",
    "gateway/endpoints/embeddings.py": "flow/test_line_exact.py",
    "gateway/endpoints/models.py": "flow/test_line_examples.py",
    "gateway/endpoints/health.py": "flow/test_workers.py",
    "gateway/endpoints/store_access.py": "flow/test_failing_store.py",
    "gateway/keys.py": "flow/test_line_keys.py",
    "gateway/limits/passing.py": "flow/test_line_limits_passing.py",
    "understudy/setup/limits.py": "flow/test_line_limits.py",
    "understudy/settings/limits.py": "flow/test_line_limits.py",
    "understudy/setup/keepers.py": "flow/test_line_examples.py",
    "gateway/keepers/example.py": "flow/test_line_admission.py",
    "gateway/keepers/request.py": "flow/test_line_examples.py",
    "gateway/keepers/use.py": "flow/test_line_examples.py",
    "learning/outcomes/correction.py": "gateway/endpoints/test_feedback.py",
    "understudy/setup/engines.py": "flow/line.py",
    "understudy/processes/listening.py": "flow/line.py",
    "gateway/cache_status.py": "flow/test_line_exact.py",
    "gateway/own_response.py": "flow/test_line_exact.py",
    "engines/registry.py": "flow/line.py",
    "understudy/processes/admin.py": "flow/test_admin_process.py",
    "gateway/endpoints/examples.py": "flow/test_line_demonstrations.py",
    "understudy/processes/learner.py": "flow/test_learner_process.py",
    "understudy/processes/replayer.py": "flow/test_replayer_process.py",
    "understudy/processes/background.py": "flow/test_roles.py",
    "learning/bank/example_store.py": "flow/test_line_demonstrations.py",
    "learning/outcomes/feedback_intake.py": "gateway/endpoints/test_feedback.py",
    "store/admission/cutting.py": "store/admission/test_chain.py",
    "store/admission/pair.py": "store/admission/test_chain.py",
    # Through the facade, as every database must pass it.
    "store/examples/contributors.py": "store/contract/test_contributors.py",
    "store/decisions/stamps.py": "store/contract/test_stamps.py",
    "store/examples/places.py": "store/contract/test_places.py",
    "store/workflows/runs.py": "store/contract/test_workflow_runs.py",
    "store/workflows/beginning.py": "store/contract/test_workflow_runs.py",
    "store/workflows/going_on.py": "store/contract/test_workflow_runs.py",
    "store/workflows/going.py": "store/contract/test_workflow_runs.py",
    "store/workflows/rows.py": "store/contract/test_workflow_runs.py",
    "store/workflows/values.py": "store/contract/test_workflow_runs.py",
    "learning/rehearsal/report.py": "understudy/commands/test_rehearse.py",
    "learning/rehearsal/sources.py": "understudy/commands/test_rehearse.py",
    "understudy/settings/admin.py": "flow/test_admin_process.py",
    # Each is a line that names a summary and a template; every test of access asks for all of them.
    "admin/pages/runs.py": "admin/test_summaries_runs.py",
    "admin/page_handlers.py": "admin/test_refused_forms.py",
    "admin/headers.py": "admin/test_access.py",
    "admin/pages/datasets.py": "admin/test_datasets.py",
    "understudy/imported_lines.py": "admin/test_datasets.py",
    "simulation/demo/sorting_questions.py": "flow/test_demo_pages.py",
    "admin/pages/accounts.py": "admin/test_access.py",
    "admin/pages/audit.py": "admin/test_access.py",
    "admin/pages/cache.py": "admin/test_summaries_cache.py",
    "admin/summaries/cache.py": "admin/test_summaries_cache.py",
    "learning/outcomes/corrected_answer.py": "admin/test_wrong_answers.py",
    "admin/pages/overview.py": "admin/test_access.py",
    "admin/pages/engines.py": "admin/test_access.py",
    "admin/pages/learning.py": "admin/test_access.py",
    "admin/pages/replay.py": "admin/test_access.py",
    "admin/pages/settings.py": "admin/test_access.py",
    "admin/pages/tenants.py": "admin/test_access.py",
    "admin/pages/trends.py": "admin/test_access.py",
    "admin/sign_in.py": "admin/test_access.py",
    # Over real sockets.
    "gateway/endpoints/responses.py": "flow/test_line_responses.py",
    "gateway/endpoints/stored_responses.py": "flow/test_line_responses.py",
    "understudy/setup/responses.py": "flow/test_line_responses.py",
    # Seams: nothing to run.
    "gateway/endpoints/handler.py": "gateway/serving.py",
    "engines/engine.py": "simulation/test_engine.py",
}


def test_no_installed_distribution_ships_one_of_our_package_names() -> None:
    owners = importlib.metadata.packages_distributions()
    for room in ROOMS:
        assert set(owners.get(room, [])) <= {"understudy-gateway"}, (
            f"{room} is also shipped by {owners[room]}"
        )


def test_every_tool_looks_at_every_package() -> None:
    """The wheel's list in pyproject.toml is the one that counts."""
    assert set(PROJECT["mypy"]["packages"]) == set(PROJECT["importlinter"]["root_packages"]) == set(ROOMS)


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Imports for the type checker count, too: who needs another's name cannot be read without it."""
    graph = grimp.build_graph(*ROOMS, cache_dir=None)
    imported = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    try:
        graphlib.TopologicalSorter(imported).prepare()
    except graphlib.CycleError as error:
        pytest.fail(" <- ".join(error.args[1]))


def test_the_largest_package_holds_less_than_a_fifth_of_the_code() -> None:
    lines = dict.fromkeys(ROOMS, 0)
    for path in SOURCES:
        lines[path.relative_to(ROOT).parts[0]] += len(path.read_text(encoding="utf-8").splitlines())
    assert max(lines.values()) < sum(lines.values()) / 5, lines


def test_only_the_gateway_and_the_admin_pages_serve_http() -> None:
    served = re.compile(
        r"^\s*(?:from aiohttp import .*\bweb\b|from aiohttp\.web|import aiohttp\.web)", re.MULTILINE
    )
    serving = {path.relative_to(ROOT).parts[0] for path in SOURCES if served.search(path.read_text("utf-8"))}
    assert serving <= {"gateway", "admin", "loadtest"}


@pytest.mark.slow
@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_module_says_what_it_is_for(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))), "a module opens with a docstring"


def test_each_source_file_has_a_test_that_imports_it() -> None:
    assert all(
        (ROOT / "tests" / test).exists() and (ROOT / source).exists() for source, test in TESTED_BY.items()
    )
    tests = "\n".join(
        line
        for path in (ROOT / "tests").rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.lstrip().startswith(("from ", "import "))
    )
    untested = []
    for path in SOURCES:
        name = str(path.relative_to(ROOT))
        module, package = (
            name.removesuffix(".py").replace("/", "."),
            path.parent.relative_to(ROOT).as_posix().replace("/", "."),
        )
        mirrored = ROOT / "tests" / path.relative_to(ROOT).parent / f"test_{path.name}"
        imported = (
            rf"\b(?:from|import) {re.escape(module)}\b|\bfrom {re.escape(package)} import .*\b{path.stem}\b"
        )
        exempt = path.name in ("__init__.py", "__main__.py") or name in TESTED_BY
        if not exempt and not mirrored.exists() and not re.search(imported, tests):
            untested.append(name)
    assert not untested


@pytest.mark.slow
def test_nobody_outside_the_store_reaches_the_database_behind_it() -> None:
    """That nobody imports SQLite is import-linter's; this is about what an open store would give away."""
    found = [
        f"{path.relative_to(ROOT)}: {ast.unparse(node)}"
        for path in SOURCES
        if path.relative_to(ROOT).parts[0] != "store"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in ("db", "_db")
    ]
    assert not found


def test_the_repository_holds_no_large_or_binary_file() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False
    ).stdout.split(b"\0")
    for name in filter(None, listed):
        path = ROOT / name.decode()
        if path.is_file():
            data = path.read_bytes()
            assert len(data) < 512 * 1024, f"{path} is {len(data)} bytes"
            assert b"\0" not in data, f"{path} is binary"


def test_the_lock_files_name_no_host_and_pin_every_line_with_a_hash() -> None:
    for lock in ROOT.glob("requirements*.lock"):
        text = lock.read_text(encoding="utf-8")
        assert "://" not in text, f"{lock.name} names a host"
        pins = re.findall(r"^[a-z0-9._-]+(?:\[[a-z,]+\])?==", text, re.MULTILINE | re.IGNORECASE)
        blocks = re.split(r"\n(?=[A-Za-z0-9])", text)
        assert pins
        assert all("--hash=sha256:" in b for b in blocks if "==" in b.split("\n")[0]), lock.name


def test_every_dependency_is_argued_for() -> None:
    argued = (ROOT / "docs" / "reference" / "dependencies.md").read_text(encoding="utf-8").lower()
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    names = set(re.findall(r'^\s*(?:[a-z]+ = \[)?"([A-Za-z0-9_.-]+)(?:[<>=\[].*)?",?', project, re.MULTILINE))
    named = {
        n.lower() for n in names if re.search(rf'"{re.escape(n)}[<>=\[]', project) or n.startswith("types-")
    }
    assert not {n for n in named if f"`{n}`" not in argued}


def test_the_example_configuration_is_current_and_short() -> None:
    from understudy.settings.example import example

    assert (ROOT / "config.example.yaml").read_text(encoding="utf-8") == example(), (
        "run: python -m understudy.settings.example"
    )
    assert len(re.findall(r"^ +[a-z_]+: \S", example(), re.MULTILINE)) <= 95


def test_every_setting_is_in_the_reference_and_it_is_current() -> None:
    from understudy.settings.config import Config
    from understudy.settings.names import settings_of
    from understudy.settings.reference import reference

    page = reference()
    assert (ROOT / "docs" / "reference" / "settings.md").read_text(encoding="utf-8") == page, (
        "run: python -m understudy.settings.reference"
    )
    assert not [setting.name for setting in settings_of(Config) if f"`{setting.name}`" not in page]


def test_the_default_of_a_setting_is_written_nowhere_else() -> None:
    """A dataclass of knobs or limits has a default only for what nobody can set."""
    from understudy.settings.config import Config
    from understudy.settings.names import settings_of

    settings = {setting.name.rpartition(".")[2] for setting in settings_of(Config)}
    twice = []
    for path in SOURCES:
        if path.relative_to(ROOT).parts[0] not in ("router", "learning", "engines"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and node.name.endswith(("Knobs", "Limits", "Timeouts")):
                twice += [
                    f"{path.relative_to(ROOT)}: {node.name}.{field.target.id}"
                    for field in node.body
                    if isinstance(field, ast.AnnAssign)
                    and isinstance(field.target, ast.Name)
                    and field.value is not None
                    and field.target.id in settings
                ]
    assert not twice


@pytest.mark.slow
def test_a_gateway_without_memory_imports_nothing_of_what_memory_stands_on() -> None:
    heavy = [
        "re2",
        "phonenumbers",
        "stdnum",
        "usearch",
        "onnxruntime",
        "tokenizers",
        "sqlite3",
        "store.admission",
        "store.sqlite",
        "store.store",
    ]
    script = f"import sys, understudy.build; print([m for m in {heavy!r} if m in sys.modules])"
    ended = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=180, check=True
    )
    assert ended.stdout.strip() == "[]"


_ASKS_ENGINES = {
    "gateway/stages/engines.py",
    "gateway/passthrough.py",
    "gateway/websocket.py",
    "gateway/endpoints/by_model.py",
    "gateway/endpoints/models.py",
    "gateway/endpoints/stored_responses.py",
}
"""Each goes by the Admitted of its request."""
_ASKS_COMPONENTS = {"workflows/running/primitives.py"}


def test_only_the_relay_prepares_answers() -> None:
    """A handler that prepares aiohttp's response by itself does not work for a plain request (gateway.http.plain). The
    server does it for whole answers to the others."""
    preparing = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "gateway").rglob("*.py")
        if re.search(r"\.prepare\(|\.write_eof\(", path.read_text(encoding="utf-8"))
    }
    assert preparing == {"gateway/relay.py", "gateway/server.py", "gateway/websocket.py"}


def test_only_admission_lets_anything_in() -> None:
    """An engine, a component and what is stored are reached with a router.asked.Admitted, which nothing else makes."""
    made, engines, components = set(), set(), set()
    for path in SOURCES:
        name = str(path.relative_to(ROOT))
        if path.relative_to(ROOT).parts[0] not in (
            "gateway",
            "admin",
            "understudy",
            "router",
            "workflows",
        ):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            called = ast.unparse(node.func)
            if "Admitted" in {called, *map(ast.unparse, node.args)} and "isinstance" not in called:
                made.add(name)
            if name.startswith(("gateway/", "workflows/running/")):
                if called in ("Attempts", "asking") or called.endswith((".stream", "engines.asking.ask")):
                    engines.add(name)
                if re.search(r"components\.(embed|rerank|search|call)$", called):
                    components.add(name)
    assert engines == _ASKS_ENGINES
    assert components == _ASKS_COMPONENTS
    assert made == {"gateway/admission.py"}
    for name in _ASKS_ENGINES:
        assert re.search(r"\badmitted\b|\bAdmitted\b|asked\.arrival", (ROOT / name).read_text("utf-8")), name
