"""Imports files: reads lines, checks them, commits some hundreds of rows at a time and records its position after each
batch.

A row's id is a digest of its content, so a line that is read twice is stored once; the position only saves reading again.
If the process is killed, nothing that was reported as done is lost. Prints nothing: it reports to a `Listener`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from engines.chat_json import parse_object
from engines.errors import RequestError
from learning.bank.contributor import EndUsers, user_of
from learning.bank.demonstrations import NotAdmitted, as_chat, content_id, digested
from learning.bank.importing.formats import BadLine, BatchInput, BatchOutput, Exported, Pair, read_line
from learning.bank.importing.lines import MAX_LINE_BYTES, Line, fingerprint, lines, opened
from learning.bank.importing.rows import row_of_export
from learning.outcomes.wrapping import as_used
from router.digest import instructions, question
from store.admission import Admission
from store.examples.batch_inputs import BatchInputs
from store.examples.imports import ImportCursors
from store.records import Admitted, Kind, NewExample, Restored, Vector

_BATCH_ROWS = 500
_BATCH_CHARACTERS = 4 * 2**20
_TIMEOUT_S = 120.0


Admit = Callable[[Sequence[Restored]], Future[list[Admitted]]]
"""`restore_many` of the bank: when the future resolves all rows are committed, or none."""


class NobodysLine(Exception):
    """A line does not say whose it is, and nobody was named for such lines."""


class Listener(Protocol):
    """Is called with the progress of an import."""

    def advanced(self, read_bytes: int, size_bytes: int) -> None:
        """`read_bytes` of the file's `size_bytes` were read; a size of 0 is unknown."""
        ...

    def refused(self, path: str, line: int, reason: str) -> None:
        """A line, numbered from 1, was not imported."""
        ...


@dataclass(slots=True)
class ImportCounts:
    """Numbers of lines by result."""

    added: int = 0
    known: int = 0
    """Already in the bank, or more than once in the files."""
    skipped: int = 0
    """Done by an earlier run."""
    refused: Counter[str] = field(default_factory=Counter)
    """Refused by admission, by reason."""
    bad: int = 0
    """Not understood."""

    @property
    def usable(self) -> int:
        """Number of lines that are in the bank now, whichever run put them there."""
        return self.added + self.known + self.skipped


@dataclass(frozen=True, slots=True)
class Options:
    """The settings of an import: its tenant, its format and the kind of its examples."""

    tenant: str | None
    """None: a line of understudy's export goes to the tenant it names, any other is nobody's."""
    format: str = "auto"
    kind: Kind | None = None
    """Overrides the kind that the format implies."""
    again: bool = False
    """True reads files again that an earlier run has done."""


class Importer:
    """Imports files into the bank. Without `embed` the running gateway embeds the examples later."""

    def __init__(
        self,
        admit: Admit,
        cursors: ImportCursors,
        end_users: EndUsers,
        admission: Admission,
        options: Options,
        listener: Listener,
        embed: Callable[[str], Vector] | None = None,
        embedding_version: str = "",
    ) -> None:
        self._admit = admit
        self._cursors = cursors
        self._end_users = end_users
        self._admission = admission
        self._options = options
        self._listener = listener
        self._embed = embed
        self._embedding_version = embedding_version
        self._inputs = BatchInputs()
        self._joins = False
        self.counts = ImportCounts()

    def close(self) -> None:
        """Deletes the requests kept for joining."""
        self._inputs.close()

    def read(self, path: str) -> None:
        """Imports a file. Raises OSError, BadFile, NobodysLine, and what writing to the store raises."""
        sha256 = fingerprint(path)
        whose = self._options.tenant or ""
        done = 0 if self._options.again or not sha256 else self._cursors.lines_done(sha256, whose)
        batch: list[Restored] = []
        characters = 0
        with opened(path) as (file, read_bytes, size_bytes):
            number = 0
            for line in lines(file):
                number = line.number
                if number <= done:
                    self.counts.skipped += 1
                    continue
                row = self._row(path, line)
                if row is not None:
                    batch.append(row)
                    characters += len(row.new.question) + len(row.new.answer) + len(row.new.embedded_text)
                if len(batch) >= _BATCH_ROWS or characters >= _BATCH_CHARACTERS:
                    self._commit(batch, sha256, whose, number)
                    batch, characters = [], 0
                    self._listener.advanced(read_bytes(), size_bytes)
            self._commit(batch, sha256, whose, number)
            self._listener.advanced(size_bytes, size_bytes)

    def _commit(self, batch: list[Restored], sha256: str, whose: str, lines_done: int) -> None:
        if batch:
            for admitted in self._admit(batch).result(_TIMEOUT_S):
                if admitted.outcome == "known":
                    self.counts.known += 1
                else:
                    self.counts.added += 1
        # A batch's input must be read again on every run, since its answers are in another file.
        if sha256 and lines_done and not self._joins:
            self._cursors.advance(sha256, whose, lines_done).result(_TIMEOUT_S)

    def _row(self, path: str, line: Line) -> Restored | None:
        try:
            if line.text is None:
                raise BadLine(f"longer than {MAX_LINE_BYTES // 2**20} MiB")
            if line.text.lstrip()[:1] == b"[":
                raise BadLine("a JSON array: one object per line is right (jq -c '.[]' makes it so)")
            row = self._parsed(parse_object(line.text))
            if row is None or self._embed is None or row.new.vector is not None:
                return row
            vector = self._embed(row.new.embedded_text)
            return replace(
                row, new=replace(row.new, vector=vector, embedding_version=self._embedding_version)
            )
        except NotAdmitted as refused:
            self.counts.refused[refused.reason] += 1
            self._listener.refused(path, line.number, f"not admitted ({refused.reason}): {refused}")
        except (BadLine, RequestError) as bad:
            self.counts.bad += 1
            self._listener.refused(path, line.number, str(bad))
        return None

    def _parsed(self, parsed: dict[str, Any]) -> Restored | None:
        read = read_line(parsed, self._options.format)
        if isinstance(read, Exported):
            return row_of_export(read.fields, self._options.tenant)
        if isinstance(read, BatchInput):
            self._joins = True
            self._inputs.put(read.custom_id, read.body)
            return None
        if isinstance(read, BatchOutput):
            request = self._inputs.get(read.custom_id)
            if request is None:
                raise BadLine(
                    f"no request has the custom_id {read.custom_id[:60]!r}: give the batch's input file before its output"
                )
            read = read.joined(request)
        return Restored(self._example(read), created_at_s=read.created_at_s)

    def _example(self, pair: Pair) -> NewExample:
        options = self._options
        tenant = options.tenant
        if tenant is None:
            raise NobodysLine
        by = self._end_users.named(tenant, None, user_of(pair.fields))
        kind: Kind = options.kind or pair.kind
        chat, answer = as_chat(pair.fields), pair.answer
        if kind == "observed":
            answer = as_used(answer, instructions(chat), question(chat.messages))
        digest = digested(
            chat,
            answer,
            self._admission,
            "import",
            finish_reason=pair.finish_reason,
            end_user=by.end_user,
        )
        name = content_id(self._end_users.secret, chat, pair.answer, by.end_user)
        return NewExample(
            tenant=tenant,
            scope=digest.scope,
            instructions=digest.instructions,
            question=digest.question,
            answer=digest.answer,
            embedded_text=digest.embedded_text,
            vector=None,
            embedding_version="",
            source_engine=pair.source[:200],
            request_id=f"{'demo' if kind == 'demonstration' else 'import'}-{name}",
            prompt_tokens=pair.prompt_tokens or digest.prompt_tokens,
            completion_tokens=pair.completion_tokens or digest.completion_tokens,
            kind=kind,
            contributor=by.contributor,
        )
