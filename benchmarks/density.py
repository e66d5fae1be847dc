"""How much code there is, and how densely it decides: `python -m benchmarks.density [COMMIT]`, beside another commit.

Code is lines without blanks, comments and docstrings. A branch is an `if`, a conditional expression, a loop,
a comprehension, an `except`, or a further operand of `and` or `or`. cc of a function: its branches and one.
"""

from __future__ import annotations

import argparse
import ast
import io
import subprocess
import tarfile
import tokenize
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path

from benchmarks.tables import markdown

ROOT = Path(__file__).parent.parent
COMPLEX = 15
CORE = (
    *("entry.py", "pipeline.py", "forward.py", "relay.py", "recorder.py"),
    *("handlers/", "endpoints/", "keepers/", "http/", "stages/"),
)
"""Of the gateway: what every request may pass, or leaves behind."""
_DECIDES = (ast.If, ast.IfExp, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.comprehension)
_NO_CODE = {getattr(tokenize, kind) for kind in ("COMMENT", "NL", "NEWLINE", "INDENT", "DEDENT", "ENDMARKER")}


@dataclass
class Counts:
    """Sums over files."""

    files: int = 0
    lines: int = 0
    code: int = 0
    branches: int = 0
    complex: int = 0
    """Functions whose cyclomatic complexity is over COMPLEX."""
    classes: int = 0

    @property
    def density(self) -> float:
        """Branches per 100 lines of code."""
        return 100 * self.branches / self.code if self.code else 0.0

    def add(self, other: Counts) -> None:
        """Add another's sums to these."""
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))


def counts_of(source: str) -> Counts:
    """What there is in one file."""
    tree = ast.parse(source)
    nodes = list(ast.walk(tree))
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return Counts(
        files=1,
        lines=len(source.splitlines()),
        code=_code(source, nodes),
        branches=branches(tree),
        complex=sum(branches(one) >= COMPLEX for one in functions),
        classes=sum(isinstance(node, ast.ClassDef) for node in nodes),
    )


def branches(tree: ast.AST) -> int:
    """The branches below a node, those of functions within it included."""
    nodes = list(ast.walk(tree))
    operands = sum(len(node.values) - 1 for node in nodes if isinstance(node, ast.BoolOp))
    return operands + sum(isinstance(node, _DECIDES) for node in nodes)


def _code(source: str, nodes: list[ast.AST]) -> int:
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in nodes:
        value = getattr(node, "value", None)
        if isinstance(node, ast.Expr) and isinstance(value, ast.Constant) and isinstance(value.value, str):
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def rooms() -> list[str]:
    """The packages of the wheel."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    return sorted(project["hatch"]["build"]["targets"]["wheel"]["packages"])


def sources(commit: str | None) -> Iterator[tuple[str, str]]:
    """(path, text) of each Python file of the working tree, or of a commit."""
    if commit is None:
        for room in rooms():
            for path in sorted((ROOT / room).rglob("*.py")):
                yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
        return
    packed = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        for member in archive:
            read = archive.extractfile(member) if member.name.endswith(".py") else None
            if read is not None:
                yield member.name, read.read().decode()


def measured(commit: str | None) -> dict[str, Counts]:
    """The sums by room, and those of the gateway's core."""
    found = {name: Counts() for name in [*rooms(), "gateway's core", "all"]}
    for path, text in sources(commit):
        room, _, below = path.partition("/")
        if room not in found:
            continue
        counts = counts_of(text)
        found[room].add(counts)
        found["all"].add(counts)
        if room == "gateway" and below.startswith(CORE):
            found["gateway's core"].add(counts)
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("commit", nargs="?", help="another commit, shown in brackets")
    commit = parser.parse_args().commit
    now, then = measured(None), measured(commit) if commit else None
    forms = ("{}", "{:,}", "{:,}", "{:.1f}", "{}", "{}")
    shown = dict(zip(("files", "lines", "code", "density", "complex", "classes"), forms, strict=True))
    rows = []
    for room, counts in now.items():
        cells = [room]
        for name, form in shown.items():
            before = f" ({form.format(getattr(then[room], name))})" if then else ""
            cells.append(form.format(getattr(counts, name)) + before)
        rows.append(cells)
    head = ["room", "files", "lines", "code", "branches/100", f"functions of cc > {COMPLEX}", "classes"]
    print(markdown(head, rows))


if __name__ == "__main__":
    main()
