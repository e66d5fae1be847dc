"""The command line: `understudy serve`, `demo`, `check`, `import`, `export`, `forget`, `keys`, `learn` and so on."""

from __future__ import annotations

import importlib

import click

_COMMANDS = {
    "serve": ("gateway.commands.serve", "serve", "Run the gateway."),
    "demo": ("gateway.commands.demo", "demo", "Watch it at work on a simulated world: no key, no GPU."),
    "check": ("gateway.commands.check", "check", "Validate a configuration and print what it comes to."),
    "import": (
        "gateway.commands.import_files",
        "import_",
        "Read past requests and answers into the bank of examples.",
    ),
    "export": ("gateway.commands.export", "export", "Write the bank of examples as JSON lines."),
    "forget": (
        "gateway.commands.forget",
        "forget",
        "Delete what is remembered of a tenant, a key or a user.",
    ),
    "keys": ("gateway.commands.keys", "keys", "Create, list and revoke API keys."),
    "learn": ("gateway.commands.learn", "learn", "Train from labels, or from what was logged."),
    "replay": ("gateway.commands.replay", "replay", "Better the bank of examples, within a budget."),
    "evaluate": (
        "gateway.commands.evaluate",
        "evaluate",
        "What would another policy, or another dial, have given? From the log.",
    ),
    "models": ("gateway.commands.models", "models", "List, roll back, freeze and export what was learnt."),
    "map": ("gateway.commands.map", "draw_map", "Draw the bank of examples on a plane, for the admin pages."),
    "admin": ("gateway.commands.admin", "admin", "Who may sign in to the admin pages."),
    "kv-plan": ("gateway.commands.kv_plan", "kv_plan", "Which prefixes engines keep warm."),
    "private": ("gateway.commands.private", "private", "Differentially private banks: status, build."),
    "load": ("loadtest.__main__", "load", "Load-test any OpenAI-compatible endpoint."),
}
"""name: (module, attribute, help). Imported only when asked for: `understudy --help` must be quick."""


class _Lazy(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, attribute, _ = _COMMANDS[cmd_name]
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, _, text) in _COMMANDS.items()])


@click.group(cls=_Lazy)
def main() -> None:
    """Understudy: a transparent OpenAI-API gateway that remembers."""


if __name__ == "__main__":
    main()
