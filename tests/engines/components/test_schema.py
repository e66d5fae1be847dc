"""JSON schemas of tools: what is checked, what is refused when the configuration is read, and what texts stand for."""

from __future__ import annotations

from typing import Any

import pytest

from engines.components.schema import Unfit, check, check_schema, coerced

INTEGER: dict[str, Any] = {"type": "integer", "minimum": 1, "maximum": 9}
OBJECT: dict[str, Any] = {
    "type": "object",
    "properties": {"n": INTEGER, "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 2}},
    "required": ["n"],
    "additionalProperties": {"type": ["string", "null"]},
}


@pytest.mark.parametrize(
    ("value", "schema"),
    [
        (1, INTEGER),
        (1.0, INTEGER),
        ({"n": 2, "tags": ["a"], "more": None}, OBJECT),
        ("a", {"enum": ["a", 1]}),
        (None, {"const": None}),
        ("abc", {"type": "string", "minLength": 3, "maxLength": 3}),
        (2, {"anyOf": [{"type": "string"}, {"type": "number"}]}),
        ([[]], {"items": {"type": "array", "minItems": 0}}),
        (object, {}),
        (1, True),
    ],
)
def test_what_fits(value: Any, schema: Any) -> None:
    check_schema(schema)
    check(value, schema)


@pytest.mark.parametrize(
    ("value", "schema", "says"),
    [
        (True, INTEGER, "must be integer, and is a boolean"),
        (1.5, INTEGER, "integer"),
        (0, INTEGER, "range"),
        ({"n": 2, "tags": ["a", 1]}, OBJECT, "/tags/1 must be string"),
        ({"n": 2, "tags": ["a", "b", "c"]}, OBJECT, "/tags has 3 items"),
        ({"n": 2, "more": 1}, OBJECT, "/more must be string or null"),
        ({"tags": []}, OBJECT, "lacks 'n'"),
        (True, {"enum": [1]}, "enum"),
        (0, {"const": False}, "const"),
        ("secret", {"type": "string", "maxLength": 3}, "6 characters"),
        ("secret", {"anyOf": [{"type": "null"}]}, "none of anyOf"),
        (1, False, "must not be there"),
    ],
)
def test_what_does_not_fit_says_where_and_never_what(value: Any, schema: Any, says: str) -> None:
    check_schema(schema)
    with pytest.raises(Unfit) as unfit:
        check(value, schema)
    assert says in str(unfit.value) and "secret" not in str(unfit.value)


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ({"$ref": "#/x"}, r"'\$ref', which is not checked here"),
        ({"properties": {"a": {"pattern": "x"}}}, "/properties/a has 'pattern'"),
        ({"type": "text"}, "'text'; there are string"),
        ({"minimum": "1"}, "minimum must be a number"),
        ({"required": "n"}, "required must be an array"),
        ({"items": [1]}, "/items must be an object"),
        ("x", "must be an object, not a text"),
    ],
)
def test_what_is_not_understood_is_refused(schema: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        check_schema(schema)


def test_a_schema_is_not_nested_for_ever() -> None:
    deep: dict[str, Any] = {}
    for _ in range(40):
        deep = {"items": deep}
    with pytest.raises(ValueError, match="nested deeper"):
        check_schema(deep)


def test_a_text_stands_for_what_the_schema_wants() -> None:
    schema = {
        "properties": {
            "n": {"type": "integer"},
            "on": {"type": "boolean"},
            "list": {"type": "array", "items": INTEGER},
        }
    }
    given = {"n": "7", "on": "true", "list": '["1", 2]', "text": "7"}
    assert coerced(given, schema) == {"n": 7, "on": True, "list": [1, 2], "text": "7"}
    assert coerced("seven", INTEGER) == "seven" and coerced('"7"', INTEGER) == '"7"'
    assert coerced("7", {"type": ["string", "integer"]}) == "7"
