"""The command line: `understudy serve`, `demo`, `check`, `import`, `export`, `forget`, `keys`, `learn` and so on."""

from __future__ import annotations

import click

from understudy.commands.lazy_group import lazy_group

_COMMANDS = {
    "serve": ("understudy.commands.serve", "serve", "Run the gateway."),
    "demo": ("understudy.commands.demo", "demo", "Watch it at work on a simulated world: no key, no GPU."),
    "reload": (
        "understudy.commands.reload",
        "reload",
        "Have a running gateway take up its changed configuration.",
    ),
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
    "prices": (
        "understudy.commands.prices",
        "prices",
        "List prices by provider and model; another list in their place.",
    ),
    "learn": (
        "understudy.commands.learn",
        "learn",
        "Train, replay, evaluate, explain; what was learnt, tasks, private banks.",
    ),
    "runs": ("understudy.commands.runs", "runs", "Runs of applications: list, show, cancel."),
    "workflow": (
        "understudy.commands.workflow",
        "workflow",
        "Workflows: check them, and explain how they are carried out.",
    ),
    "engines": ("understudy.commands.engines", "engines", "How engines stand; drain, resume and test them."),
    "admin": (
        "understudy.commands.admin",
        "admin",
        "Who may sign in to the admin pages, and tokens of the admin API.",
    ),
    "load": ("loadtest.__main__", "load", "Load-test any OpenAI-compatible endpoint."),
}


@click.group(cls=lazy_group(_COMMANDS), context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="understudy-gateway", prog_name="understudy")
def main() -> None:
    """Understudy: a transparent OpenAI-API gateway that remembers."""
    # Here, once it is known that the package is ours (understudy.shadowed).
    from gateway.log import configure

    configure()


if __name__ == "__main__":
    main()
