"""Lines of JSON that an operator sends on the admin pages, as examples: read as files of fine-tuning, through admission."""

from __future__ import annotations

import tempfile

from admin.actions import Imported, NotDone
from learning.bank.contributor import EndUsers
from learning.bank.importing.importer import Importer, Options
from learning.bank.importing.lines import BadFile
from store import Store
from store.errors import StoreError
from store.records import Kind
from understudy.settings.memory import MemorySettings
from understudy.setup.examples import admission

_TOLD = 20


class _Problems:
    """Keeps why the first lines were not taken."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def advanced(self, read_bytes: int, size_bytes: int) -> None:
        """Nobody watches: a form's file is small."""

    def refused(self, path: str, line: int, reason: str) -> None:
        """Notes one line."""
        if len(self.told) < _TOLD:
            self.told.append(f"line {line}: {reason}")


def import_lines(store: Store, memory: MemorySettings, tenant: str, text: str, kind: Kind) -> Imported:
    """Adds conversations with their answers to a tenant's bank; a worker embeds them. Blocks. Raises NotDone.

    A line of the bank's own export is not taken: it would go past admission. `understudy import` takes it.
    """
    problems = _Problems()
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
        file.write(text.encode("utf-8", "replace"))
        file.flush()
        importer = Importer(
            store.examples.restore_many,
            store.examples.imports,
            EndUsers(store.secret, apart=memory.partition == "user"),
            admission(memory),
            Options(tenant, "openai", kind, again=True),
            problems,
        )
        try:
            importer.read(file.name)
        except (OSError, BadFile) as error:
            raise NotDone(f"the file cannot be read: {error}") from error
        except (StoreError, TimeoutError) as error:
            raise NotDone(f"the store could not keep it: {error or 'it takes too long'}") from error
        finally:
            importer.close()
    counts = importer.counts
    return Imported(counts.added, counts.known, dict(counts.refused), counts.bad, tuple(problems.told))
