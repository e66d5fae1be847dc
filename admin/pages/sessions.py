"""Sessions pages: conversations, and the requests of one."""

from __future__ import annotations

from admin.page import Page
from admin.summaries.sessions import session, sessions

SESSIONS = Page("/sessions", "Sessions", "sessions.html", sessions, script="live_list.js", csv="rows")
SESSION = Page(
    "/sessions/{tenant}/{id}",
    "Session",
    "session.html",
    session,
    section="/sessions",
    in_menu=False,
    csv="rows",
)
