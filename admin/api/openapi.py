"""The OpenAPI 3.1 document of the admin API, made from its routes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from admin.api.route import Route
from admin.api.schemas import SCHEMAS

DOCUMENT = "/api/openapi.json"
"""Where it is served."""


def document(routes: Iterable[Route]) -> dict[str, Any]:
    """The document."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    paths.setdefault(DOCUMENT, {})["get"] = {
        "operationId": "openapi",
        "summary": "This document.",
        "security": [],
        "responses": {"200": {"description": "Done.", "content": _json("Document")}},
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Understudy admin API",
            "version": "1",
            "description": "Keys, tenants and usage. Needs a token made with `understudy admin token create`.",
        },
        "paths": paths,
        "components": {
            "schemas": SCHEMAS,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


def _operation(route: Route) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": route.name.replace("/", "_"),
        "summary": route.operation.sentence,
        "responses": {
            str(route.status): {"description": "Done.", "content": _json(route.gives)},
            "default": {"description": "Why not.", "content": _json("Problem", "application/problem+json")},
        },
    }
    if route.method == "PUT" and route.path.endswith("/{name}"):
        found["responses"]["201"] = {"description": "Made.", "content": _json(route.gives)}
    parameters = [_in_path(name) for name in route.in_path]
    parameters += [
        {"name": name, "in": "query", "description": schema.pop("description"), "schema": schema}
        for name, schema in route.parameters.items()
    ]
    if parameters:
        found["parameters"] = parameters
    if route.takes:
        found["requestBody"] = {"required": route.takes != "Rotation", "content": _json(route.takes)}
    found["description"] = f"Needs the role {route.role.value}."
    return found


def _in_path(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


def _json(schema: str, content_type: str = "application/json") -> dict[str, Any]:
    return {content_type: {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
