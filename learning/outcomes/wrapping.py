"""Finds what an answer says within what stands around it: fences, ticks, quotes, and prose beside one block of code.

Chat models wrap a command or a value in Markdown although a program reads it. Pure functions over text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_FENCE = re.compile(r"```([\w+#-]*)[^\S\n]*\n(.*?)\n?[^\S\n]*```", re.DOTALL)
_TICKS = re.compile(
    r"(?:(?:the\s+)?(?:answer|command|query|result|output)(?:\s*:|\s+is:?)\s*)?(`{1,2})([^`\n]+)\1\.?",
    re.IGNORECASE,
)
_QUOTES = (('"', '"'), ("'", "'"), ("“", "”"), ("‘", "’"), ("«", "»"))
_SAME_LANGUAGE = {
    **dict.fromkeys(("bash", "shell", "zsh", "console", "terminal", "shell-session"), "sh"),
    **dict.fromkeys(("py", "python3"), "python"),
    "js": "javascript",
    "ts": "typescript",
    **dict.fromkeys(("text", "txt", "plaintext", "json"), ""),
}
_INTRODUCTION_WORDS = 25
_DENIES = re.compile(
    r"\b(?:no|not|nor|never|without|instead|but|however|although|though|unless|except|avoid|wrong|incorrect|fails?|"
    r"only|alternatively|otherwise|or|if|replac\w+|cannot|careful\w*|warning|caution|n't|\w+n['’]t|"
    r"nicht|kein\w*|aber|oder|falls|niet|non|ne|pas|jamais|mais|ou|sans|sin|pero|nunca|o|nie|inte|ikke)\b",
    re.IGNORECASE,
)
"""Words with which prose may take back, limit or change what the code beside it says."""
_WRAPPING = r"markdown|code[ -]?(?:block|fence)s?|fenc\w+|back-?ticks?|`"
_ASKS_WRAPPING = re.compile(_WRAPPING, re.IGNORECASE)
_ASKS_BARE = re.compile(
    rf"\b(?:no|not|without|never|don['’]?t)\b[^.\n]{{0,40}}?(?:{_WRAPPING})", re.IGNORECASE
)
_ASKS_NOTHING_ELSE = re.compile(
    r"\bonly\b|\bnothing (?:else|but)\b|\bjust the\b|\bno (?:explanations?|prose|comments?|other text)\b"
    r"|\bwithout (?:any )?(?:explanations?|explaining|prose)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Meant:
    """The meaning of an answer, without what stands around it."""

    text: str
    language: str = ""
    """As the fence around it names it; empty if none does."""


def meant(text: str) -> Meant:
    """The text within a fence, ticks or quotes that stand around all of it; the text itself if none do."""
    text = text.strip()
    fence = _whole_fence(text)
    if fence is not None:
        return fence
    ticks = _TICKS.fullmatch(text)
    inner = ticks[2].strip() if ticks is not None else _unquoted(text)
    return Meant(inner or text)


def only_code(text: str) -> Meant | None:
    """The one block of code that prose stands beside, where the prose only introduces or explains it; else None."""
    blocks = list(_FENCE.finditer(text)) if text.count("```") == 2 else []
    if len(blocks) != 1:
        return None
    block = blocks[0]
    before, after = text[: block.start()].strip(), text[block.end() :].strip()
    introduces = not before or (before.endswith(":") and len(before.split()) <= _INTRODUCTION_WORDS)
    prose = f"{before} {after}"
    # In other scripts nobody here can tell whether the prose takes something back.
    if not introduces or not prose.isascii() or _DENIES.search(prose):
        return None
    return Meant(block[2].strip(), _language(block[1]))


def as_used(answer: str, *asked: str) -> str:
    """The answer as a client uses it, for a small engine to imitate. `asked`: instructions and question.

    It stays as it came where a wrapping was asked for. Else a line or JSON loses the fence or ticks around it. Code of
    several lines, which a person may read in a chat, and code beside prose are taken out where the request asks for
    nothing else.
    """
    request = "\n".join(asked)
    bare = _ASKS_BARE.search(request) is not None
    if not bare and _ASKS_WRAPPING.search(request):
        return answer
    text = answer.strip()
    ticks, fence = _TICKS.fullmatch(text), _whole_fence(text)
    if ticks is not None:
        return ticks[2].strip() or answer
    nothing_else = bare or _ASKS_NOTHING_ELSE.search(request) is not None
    if fence is None:
        fence = only_code(text) if nothing_else else None
    elif "\n" in fence.text and not nothing_else and fence.text[:1] not in ("{", "["):
        return answer
    return fence.text if fence is not None and fence.text else answer


def _whole_fence(text: str) -> Meant | None:
    found = _FENCE.fullmatch(text) if text.startswith("```") else None
    if found is None or "```" in found[2]:
        return None
    return Meant(found[2].strip("\n") if "\n" in found[2] else found[2].strip(), _language(found[1]))


def _language(name: str) -> str:
    return _SAME_LANGUAGE.get(name.lower(), name.lower())


def _unquoted(text: str) -> str:
    for opening, closing in _QUOTES:
        inner = text[1:-1]
        whole = text.startswith(opening) and text.endswith(closing)
        # A string that holds JSON is not that JSON.
        if whole and opening not in inner and closing not in inner and inner.lstrip()[:1] not in ("{", "["):
            return inner.strip()
    return text
