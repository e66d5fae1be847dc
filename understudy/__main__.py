"""The command line: `understudy serve`, `demo`, `check`, `import`, `export`, `forget`, `keys`, `learn` and so on."""

from __future__ import annotations

import click

from gateway.log import configure
from understudy.commands.lazy_group import lazy_group

_COMMANDS = {
    "serve": ("understudy.commands.serve", "serve", "Run the gateway."),
    "demo": ("understudy.commands.demo", "demo", "Watch it at work on a simulated world: no key, no GPU."),
    "reload": (
        "understudy.commands.reload",
        "reload",
        "Have a running gateway take up its changed configuration.",
    ),
    "backup": (
        "understudy.commands.backup",
        "backup",
        "Write a data folder into one file, while it is in use.",
    ),
    "restore": ("understudy.commands.backup", "restore", "Make a data folder of a backup."),
    "store": (
        "understudy.commands.store",
        "store",
        "PostgreSQL: make its schema, move to it from SQLite, and back.",
    ),
    "check": ("understudy.commands.check", "check", "Validate a configuration and print what it comes to."),
    "import": (
        "understudy.commands.import_files",
        "import_",
        "Read past requests and answers into the bank of examples.",
    ),
    "import-config": (
        "understudy.commands.import_config",
        "import_config",
        "Put another gateway's configuration (LiteLLM's) into ours.",
    ),
    "export": ("understudy.commands.export", "export", "Write examples, or the log of requests, to a file."),
    "forget": (
        "understudy.commands.forget",
        "forget",
        "Delete what is remembered of a tenant, a key or a user.",
    ),
    "keys": ("understudy.commands.keys", "keys", "Create, change, rotate, list and revoke API keys."),
    "tenants": ("understudy.commands.tenants", "tenants", "What all keys of a tenant together may use."),
    "usage": (
        "understudy.commands.usage",
        "usage",
        "What was used and paid, by model, key, tenant, end user or day.",
    ),
    "rehearse": (
        "understudy.commands.rehearse",
        "rehearse",
        "Ask a small engine past requests, with examples and without.",
    ),
    "learn": ("understudy.commands.learn", "learn", "Train from labels, or from what was logged."),
    "replay": ("understudy.commands.replay", "replay", "Better the bank of examples, within a budget."),
    "evaluate": (
        "understudy.commands.evaluate",
        "evaluate",
        "What would another policy, or another preference, have given? From the log.",
    ),
    "explain": (
        "understudy.commands.explain",
        "explain",
        "Why is so little answered by a smaller engine, and what would it take?",
    ),
    "models": ("understudy.commands.models", "models", "List, roll back, freeze and export what was learnt."),
    "tasks": (
        "understudy.commands.tasks",
        "tasks",
        "Requests whose answers are labels: list, propose, enable, pause.",
    ),
    "runs": ("understudy.commands.runs", "runs", "Runs of applications: list, show, cancel."),
    "workflow": (
        "understudy.commands.workflow",
        "workflow",
        "Workflows: check them, and explain how they are carried out.",
    ),
    "engines": ("understudy.commands.engines", "engines", "How engines stand; drain, resume and test them."),
    "map": (
        "understudy.commands.map",
        "draw_map",
        "Draw the bank of examples on a plane, for the admin pages.",
    ),
    "admin": (
        "understudy.commands.admin",
        "admin",
        "Who may sign in to the admin pages, and tokens of the admin API.",
    ),
    "kv-plan": ("understudy.commands.kv_plan", "kv_plan", "Which prefixes engines keep warm."),
    "private": ("understudy.commands.private", "private", "Differentially private banks: status, build."),
    "load": ("loadtest.__main__", "load", "Load-test any OpenAI-compatible endpoint."),
}


@click.group(cls=lazy_group(_COMMANDS), context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="understudy-gateway", prog_name="understudy")
def main() -> None:
    """Understudy: a transparent OpenAI-API gateway that remembers."""
    configure()


if __name__ == "__main__":
    main()
