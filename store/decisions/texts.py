"""What was asked and answered, request by request: for people who look into it. Kept for a while, searched by words.

Whose texts may be kept, and with what in them replaced, is decided elsewhere. Of examples that were sent along only their
ids are here: their texts are in the bank, and are deleted there.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import orjson

from store.database import Connection, Database
from store.decisions.kept_details import NOTHING, KeptDetails
from store.inserting import Insert
from store.plain import plain
from store.records import TEXT_OF_KEY
from store.tenant_scope import ALL, TenantScope
from store.written_together import write_each

_DEFLATE_LEVEL = 1
_ROW_BYTES = 256
"""What a row costs beside its texts: its place in the indices."""
_TRIMMED_AT_ONCE = 2_000


@dataclass(frozen=True, slots=True)
class SentExample:
    """An example as it was sent along."""

    id: int
    digest: str
    """Of its texts then: tells whether the bank still says the same."""


@dataclass(frozen=True, slots=True)
class RequestTexts:
    """The texts of one request, with what is private in them replaced already."""

    tenant: str
    request_id: str
    contributor: str
    """As of Example.contributor, so that they go when their contributor is forgotten."""
    at_s: float
    question: str = ""
    """The last user turn, cut: what lists show and what is searched."""
    answer: str = ""
    """Of the first choice; empty where there was none."""
    messages: tuple[Mapping[str, Any], ...] | None = None
    """What the client sent, role and text of each, the latest ones where it was long; None: a repeat, whose texts are those
    under its exact key."""
    left_out: int = 0
    """How many earlier messages were too much to keep."""
    cut: int = 0
    """How many characters of the only message that is kept were too much."""
    replaced: tuple[str, ...] = ()
    """Kinds of private data of which something was replaced."""
    sent_at: int | None = None
    """Before which of `messages` the examples stood; None when the request was sent as it came."""
    sent: tuple[SentExample, ...] = ()
    """The examples, in the order in which they were sent."""
    finish_reason: str = ""
    same: bytes | None = None
    """Equal for exact repeats."""
    details: KeptDetails = NOTHING
    """What else is content of it; of a repeat its own."""
    row_id: int = field(default=0, compare=False)
    """Its place in the log of texts; 0 before it is stored."""

    @property
    def whole(self) -> bool:
        """Whether all of the conversation is kept."""
        return self.messages is not None and not self.left_out and not self.cut


def digest_of(question: str, answer: str) -> str:
    """A short name for an example's texts: equal as long as they are the same."""
    return hashlib.blake2b(f"{question}\0{answer}".encode("utf-8", "replace"), digest_size=6).hexdigest()


class RequestTextLog:
    """One row per request whose texts may be kept; none for a repeat that has nothing of its own.

    Every look-up names a tenant; searches are for an operator.
    """

    def __init__(self, db: Database) -> None:
        self._db = db

    def keep(self, *texts: RequestTexts) -> Future[None]:
        """Keep them; a second one of the same request is ignored. Raises StoreBusy."""

        def insert(connection: Connection, row: Sequence[object]) -> None:
            self._db.append(connection, _INSERT, row)

        return write_each(self._db, insert, [(_as_row(one),) for one in texts], spare=True)

    def get(self, tenant: str, request_id: str) -> RequestTexts | None:
        """The texts of a tenant's request; where it is a repeat, of the one that it repeats. None where none are kept."""
        read = self._db.read()
        found = read.execute(
            _SELECT + " WHERE tenant = ? AND request_id = ?", (tenant, request_id)
        ).fetchone()
        texts = None if found is None else _as_texts(found)
        if texts is not None and texts.messages is not None:
            return texts
        of_key = read.execute(_OF_KEY, (tenant, request_id)).fetchone()
        return None if of_key is None else _as_texts(of_key)

    def latest(self, limit: int) -> list[tuple[RequestTexts, str, str]]:
        """Texts with the key and the end user of their request, the latest first; repeats of a request are left out."""
        rows = self._db.read().execute(_LATEST, (limit,)).fetchall()
        return [(_as_texts(row[2:]), row[0], row[1]) for row in rows]

    def previews(self, request_ids: Sequence[str], characters: int = 160) -> dict[str, str]:
        """The beginnings of these requests' questions, by request id; those without texts are left out."""
        rows = self._db.read().execute(
            f"SELECT q.id, substr(t.question, 1, ?) FROM json_each(?) AS wanted JOIN requests q ON q.id = wanted.value"  # noqa: S608
            " LEFT JOIN request_texts r ON r.tenant = q.tenant AND r.request_id = q.id"
            " JOIN request_texts t ON t.row_id = CASE WHEN r.conversation IS NOT NULL THEN r.row_id"
            f" ELSE {_PLACE_OF_KEY} END",
            (characters, orjson.dumps(list(request_ids)).decode()),
        )
        return dict(rows.fetchall())

    def search(self, text: str, *, before: int | None = None, limit: int = 500) -> list[tuple[int, str]]:
        """(place, request id) of requests whose question or answer has these words, the latest first, of any tenant."""
        return self._db.words.requests(text, before if before is not None else 2**62, limit)

    def repeats(self, places: Sequence[int], each: int = 10) -> dict[int, list[str]]:
        """Request ids of the latest repeats of the requests at these places, at most `each`, the latest first, by place."""
        rows = self._db.read().execute(_REPEATS, (each, orjson.dumps(list(places)).decode()))
        found: dict[int, list[str]] = {}
        for place, id in rows.fetchall():
            found.setdefault(place, []).append(id)
        return found

    def total_bytes(self) -> int:
        """How much is kept. Costs no scan."""
        row: tuple[int] = (
            self._db.read().execute("SELECT sum(total_bytes) FROM request_texts_size").fetchone()
        )
        return row[0]

    def trim(
        self, before_s: float, max_bytes: int, limit: int = _TRIMMED_AT_ONCE, *, tenants: TenantScope = ALL
    ) -> Future[int]:
        """Delete what is older than `before_s`, then anybody's oldest until `max_bytes` are left; at most `limit` at once.

        Gives how many: call again while it gives `limit`. Their words are purged in the background.
        """

        def delete(connection: Connection) -> int:
            count = connection.execute(
                "DELETE FROM request_texts WHERE row_id IN (SELECT row_id FROM request_texts WHERE at_s < ?"  # noqa: S608
                f"{tenants.condition} ORDER BY at_s LIMIT ?)",
                (before_s, *tenants.values, limit),
            ).rowcount
            (total,) = connection.execute("SELECT sum(total_bytes) FROM request_texts_size").fetchone()
            over: list[tuple[int]] = []
            for row_id, size in connection.execute(
                "SELECT row_id, size_bytes FROM request_texts ORDER BY row_id LIMIT ?", (limit - count,)
            ).fetchall():
                if total <= max_bytes:
                    break
                total -= size
                over.append((row_id,))
            connection.executemany("DELETE FROM request_texts WHERE row_id = ?", over)
            return count + len(over)

        return self._db.write(delete, after=self._purge_after)

    def forget_tenant(self, tenant: str) -> Future[int]:
        """Delete every text of a tenant; gives how many requests'."""
        return self._delete("DELETE FROM request_texts WHERE tenant = ?", tenant)

    def forget_contributor(self, tenant: str, contributor: str) -> Future[int]:
        """Delete the texts of one contributor's requests; gives how many. Raises ValueError for an empty contributor."""
        if not contributor:
            raise ValueError("an empty contributor is nobody: name one, or forget the tenant")
        return self._delete(
            "DELETE FROM request_texts WHERE tenant = ? AND contributor = ? AND contributor <> ''",
            tenant,
            contributor,
        )

    def _delete(self, statement: str, *values: str) -> Future[int]:
        return self._db.write(
            lambda connection: connection.execute(statement, values).rowcount, after=self._purge_after
        )

    def _purge_after(self, deleted: int) -> None:
        if deleted:
            self._db.words.purge_soon("request_words")


_COLUMNS = "tenant, request_id, contributor, at_s, same, size_bytes, question, answer, conversation, details"
_SELECT = f"SELECT row_id, {_COLUMNS} FROM request_texts"  # noqa: S608 - a constant
_LATEST = (
    f"SELECT q.key_id, q.end_user, {', '.join(f'r.{name}' for name in f'row_id, {_COLUMNS}'.split(', '))}"  # noqa: S608
    " FROM (SELECT * FROM request_texts WHERE conversation IS NOT NULL ORDER BY row_id DESC LIMIT ?) r"
    " JOIN requests q ON q.id = r.request_id AND q.tenant = r.tenant ORDER BY r.row_id DESC"
)
_INSERT = Insert("request_texts", _COLUMNS, key="tenant, request_id")


_PLACE_OF_KEY = (
    "(SELECT s.row_id FROM request_texts s WHERE s.tenant = q.tenant AND s.same = q.exact_key"  # noqa: S608
    f" AND s.conversation IS NOT NULL AND q.no_text = '{TEXT_OF_KEY}' ORDER BY s.row_id DESC LIMIT 1)"
)
"""Of a request `q` that repeats another one, where the texts of that are."""
_OF_KEY = (
    f"SELECT t.row_id, {', '.join(f't.{name}' for name in _COLUMNS.split(', '))} FROM requests q"  # noqa: S608
    f" JOIN request_texts t ON t.row_id = {_PLACE_OF_KEY} WHERE q.tenant = ? AND q.id = ?"
)
_REPEATS = (
    "SELECT t.row_id, r.id FROM json_each(?2) AS place"  # noqa: S608 - a constant
    " CROSS JOIN request_texts t ON t.row_id = CAST(place.value AS INTEGER)"
    " CROSS JOIN requests q ON q.id = t.request_id"
    " CROSS JOIN requests r ON r.row_id IN (SELECT s.row_id FROM requests s WHERE s.completion_id = q.completion_id"
    " AND s.completion_id <> '' AND s.tenant = t.tenant AND s.exact_key = t.same"
    f" AND s.no_text = '{TEXT_OF_KEY}' ORDER BY s.row_id DESC LIMIT ?1)"
    " ORDER BY t.row_id DESC, r.row_id DESC"
)
"""A repeat has no words: it is found by those of the request that it repeats, and that by the `id` of the answer."""


def _as_row(texts: RequestTexts) -> tuple[Any, ...]:
    conversation = None
    if texts.messages is not None:
        conversation = zlib.compress(
            orjson.dumps(
                {
                    "messages": texts.messages,
                    "left_out": texts.left_out,
                    "cut": texts.cut,
                    "replaced": texts.replaced,
                    "sent_at": texts.sent_at,
                    "sent": [(one.id, one.digest) for one in texts.sent],
                    "finish_reason": texts.finish_reason,
                }
            ),
            _DEFLATE_LEVEL,
        )
    size = len(texts.question.encode()) + len(texts.answer.encode())
    # Twice: the words of questions and answers are indexed.
    details = texts.details.packed() if texts.details is not NOTHING else None
    size_bytes = _ROW_BYTES + 2 * size + len(conversation or b"") + len(details or b"")
    return (
        texts.tenant,
        texts.request_id,
        texts.contributor,
        texts.at_s,
        texts.same,
        size_bytes,
        plain(texts.question),
        plain(texts.answer),
        conversation,
        details,
    )


def _as_texts(row: Sequence[Any]) -> RequestTexts:
    row_id, tenant, request_id, contributor, at_s, same, _, question, answer, conversation, details = row
    rest: dict[str, Any] = orjson.loads(zlib.decompress(conversation)) if conversation else {"messages": None}
    messages = rest["messages"]
    return RequestTexts(
        tenant,
        request_id,
        contributor,
        at_s,
        question,
        answer,
        messages=None if messages is None else tuple(messages),
        left_out=rest.get("left_out", 0),
        cut=rest.get("cut", 0),
        replaced=tuple(rest.get("replaced", ())),
        sent_at=rest.get("sent_at"),
        sent=tuple(SentExample(*one) for one in rest.get("sent", ())),
        finish_reason=rest.get("finish_reason", ""),
        same=same,
        details=KeptDetails.unpacked(details),
        row_id=row_id,
    )
