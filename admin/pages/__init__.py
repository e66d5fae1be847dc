"""Every page, in the order of the menu. A new one is a Page in a file here and a line below."""

from __future__ import annotations

from admin.page import Page
from admin.pages.accounts import ACCOUNTS, OWN_ACCOUNT
from admin.pages.audit import AUDIT
from admin.pages.cache import CACHE
from admin.pages.cost import COST
from admin.pages.datasets import DATASETS_PAGE
from admin.pages.docs import DOC, DOCS
from admin.pages.engines import ENGINES
from admin.pages.examples import EXAMPLE, EXAMPLES, MAP
from admin.pages.find import FIND
from admin.pages.forgetting import FORGET, STATEMENT
from admin.pages.help import HELP
from admin.pages.learning import LEARNING
from admin.pages.log_report import LOG_REPORT
from admin.pages.overview import OVERVIEW
from admin.pages.playground import PLAYGROUND
from admin.pages.replay import REPLAY, REPLAY_RUN
from admin.pages.requests import REQUEST, REQUESTS
from admin.pages.review import REVIEW
from admin.pages.router import CHANGE, ROUTER, SIMULATE
from admin.pages.runs import APPLICATIONS, RUN, RUNS
from admin.pages.sessions import SESSION, SESSIONS
from admin.pages.settings import SETTINGS
from admin.pages.tasks import TASK, TASKS
from admin.pages.tenants import KEY, TENANT, TENANT_DELETION, TENANTS
from admin.pages.trends import TRENDS
from admin.pages.workflows import WORKFLOW, WORKFLOWS

PAGES: tuple[Page, ...] = (
    *(OVERVIEW, LOG_REPORT),
    *(TRENDS, COST),
    *(REQUESTS, REQUEST),
    *(SESSIONS, SESSION),
    *(RUNS, APPLICATIONS, RUN),
    *(WORKFLOWS, WORKFLOW),
    *(EXAMPLES, MAP, EXAMPLE),
    DATASETS_PAGE,
    CACHE,
    ENGINES,
    *(ROUTER, SIMULATE, CHANGE),
    PLAYGROUND,
    REVIEW,
    *(REPLAY, REPLAY_RUN),
    *(TASKS, TASK),
    LEARNING,
    *(TENANTS, TENANT, TENANT_DELETION, KEY, FORGET),
    SETTINGS,
    *(ACCOUNTS, OWN_ACCOUNT, AUDIT, STATEMENT),
    *(HELP, DOCS, DOC, FIND),
)
