"""Workflows pages: which there are, and how one is declared and carried out."""

from __future__ import annotations

from admin.page import Page
from admin.summaries.workflow import workflow
from admin.summaries.workflows import workflows

WORKFLOWS = Page("/workflows", "Workflows", "workflows.html", workflows, csv="configured")
WORKFLOW = Page(
    "/workflows/{name}", "Workflow", "workflow.html", workflow, section="/workflows", in_menu=False
)
