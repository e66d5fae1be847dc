"""A form that was refused comes back as it was sent: the page that holds it, with its fields filled and the error at one.

The page is rendered as always, and its form is found by where it sends to and by its hidden fields. So no template has to
know of refusals: what our templates write is regular enough for expressions to read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape, unescape
from urllib.parse import unquote

_FORM = re.compile(r"<form\b([^>]*)>(.*?)</form>", re.DOTALL)
CONTROL = re.compile(
    r"<input\b(?P<input>[^>]*)>|<textarea\b(?P<textarea>[^>]*)>(?P<text>.*?)</textarea>"
    r"|<select\b(?P<select>[^>]*)>(?P<options>.*?)</select>",
    re.DOTALL,
)
"""A field of a form."""
_DETAILS = re.compile(r"<details\b(?![^>]*\sopen\b)")
_OPEN = "<details open"
_OPTION = re.compile(r"<option\b([^>]*)>(.*?)</option>", re.DOTALL)
_BUTTON = re.compile(r'<button\b[^>]*\bformaction="([^"]*)"')
_ATTRIBUTE = re.compile(r"""([\w-]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+)))?""")
_ERROR_ID = "field-error"
NEVER_FILLED = ("form_token", "password")
"""Fields, or parts of their names, that are never written into a page."""
_CHANGES = ("form_token", "version")
"""Hidden fields that differ between the form that was sent and the form of now."""


@dataclass(frozen=True, slots=True)
class RefusedForm:
    """What was sent, and why it was refused. Templates have it as `form`; usually they need not look at it."""

    action: str
    """Path it was sent to."""
    values: Mapping[str, tuple[str, ...]]
    """Every field's values, in order."""
    message: str = ""
    """The sentence for the person."""
    field: str = ""
    """Name of the field the sentence is about; empty for none."""

    def fills(self, name: str) -> bool:
        """Whether a field of this name was sent and may be written into a page."""
        return name in self.values and not any(part in name for part in NEVER_FILLED)


def holds(page: str, form: RefusedForm) -> bool:
    """Whether the page has the form: not where what it is about is gone, or dealt with."""
    return any(_is_it(found, form) for found in _FORM.finditer(page))


def refilled(page: str, form: RefusedForm) -> str:
    """The page with the form's fields as they were sent; unchanged where it has no such form."""
    chosen = next((found for found in _FORM.finditer(page) if _is_it(found, form)), None)
    if chosen is None:
        return page
    id = attributes_of(chosen[1]).get("id", "")
    told: list[str] = []
    page, begins, ends = _opened(page, chosen.start(), chosen.end())

    def replace(found: re.Match[str]) -> str:
        attributes = attributes_of(found["input"] or found["textarea"] or found["select"] or "")
        owner = attributes.get("form")
        belongs = owner == id if owner else begins < found.start() < ends
        return _control(found, attributes, form, told) if belongs else found[0]

    return CONTROL.sub(replace, page)


def _opened(page: str, begins: int, ends: int) -> tuple[str, int, int]:
    """The page with every `details` open that is in the form or around it, and where the form is then.

    Nobody sees a field's error in one that is closed.
    """
    before, inside = page[:begins], page[begins:ends]
    around = [found.start() for found in _DETAILS.finditer(before)]
    if around and "</details>" not in before[around[-1] :]:
        before = before[: around[-1]] + _DETAILS.sub(_OPEN, before[around[-1] :], count=1)
    inside = _DETAILS.sub(_OPEN, inside)
    return before + inside + page[ends:], len(before), len(before) + len(inside)


def _is_it(found: re.Match[str], form: RefusedForm) -> bool:
    attributes = attributes_of(found[1])
    actions = [attributes.get("action", ""), *map(unescape, _BUTTON.findall(found[2]))]
    if attributes.get("method") != "post" or unquote(form.action) not in map(unquote, actions):
        return False
    hidden = [
        (of["name"], of.get("value", ""))
        for control in CONTROL.finditer(found[2])
        if control["input"] is not None
        and (of := attributes_of(control["input"])).get("type") == "hidden"
        and of.get("name", "") not in ("", *_CHANGES)
    ]
    return all(value in form.values.get(name, ()) for name, value in hidden)


def _control(found: re.Match[str], attributes: dict[str, str], form: RefusedForm, told: list[str]) -> str:
    """One control, filled, with the error behind it where it is the field that was refused."""
    name = attributes.get("name", "")
    wrong = bool(form.field) and name == form.field and not told and attributes.get("type") != "hidden"
    said = ""
    if wrong:
        told.append(name)
        said = f'<small class="field-error" id="{_ERROR_ID}">{escape(form.message)}</small>'
    if found["textarea"] is not None:
        text = "\n" + escape(form.values[name][0]) if form.fills(name) else found["text"]
        return f"<textarea{_marked(found['textarea'], wrong)}>{text}</textarea>{said}"
    if found["select"] is not None:
        options = _options(found["options"], form.values[name]) if form.fills(name) else found["options"]
        return f"<select{_marked(found['select'], wrong)}>{options}</select>{said}"
    return f"<input{_marked(_input(found['input'], attributes, form), wrong)}>{said}"


def _input(text: str, attributes: dict[str, str], form: RefusedForm) -> str:
    name, kind = attributes.get("name", ""), attributes.get("type", "text")
    if kind in ("hidden", "password", "file", "submit", "button", "image", "reset") or not name:
        return text
    if kind in ("checkbox", "radio"):
        # A box that was not ticked was not sent.
        ticked = attributes.get("value", "on") in form.values.get(name, ())
        return _without(text, "checked") + (" checked" if ticked else "")
    if not form.fills(name):
        return text
    return f'{_without(text, "value")} value="{escape(form.values[name][0])}"'


def _options(text: str, values: tuple[str, ...]) -> str:
    def replace(found: re.Match[str]) -> str:
        value = attributes_of(found[1]).get("value")
        chosen = (unescape(found[2]).strip() if value is None else value) in values
        return f"<option{_without(found[1], 'selected')}{' selected' if chosen else ''}>{found[2]}</option>"

    return _OPTION.sub(replace, text)


def _marked(text: str, wrong: bool) -> str:
    if not wrong:
        return text
    rest = _without(_without(text, "aria-describedby"), "autofocus")
    return f'{rest} aria-invalid="true" aria-describedby="{_ERROR_ID}" autofocus'


def attributes_of(text: str) -> dict[str, str]:
    """The attributes of an element, by name."""
    return {
        found[1]: unescape(next((value for value in found.groups()[1:] if value is not None), ""))
        for found in _ATTRIBUTE.finditer(text)
    }


def _without(text: str, name: str) -> str:
    """An element's attributes without one of them."""
    return "".join(" " + found[0] for found in _ATTRIBUTE.finditer(text) if found[1] != name)
