"""The simulated reader: it knows nothing, and quotes from its prompt. For workflows that retrieve, without a key or a GPU.

Asked a question, it repeats the sentence of its prompt that has most of the question's words. Asked for a JSON list of
rewordings, it writes the question, its words without the common ones, and that again with one word less each.
"""

from __future__ import annotations

import json
import re
from itertools import islice

from engines.chat import message_text
from simulation.reading import Messages

NOTHING = "The text does not say."
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\s*\n\s*")
_LABEL = re.compile(r"^(?:[A-Z]\w*(?: \w+){0,2}):\s+")
_WORD = re.compile(r"\w+")
_LIST = re.compile(r"\bJSON (?:list|array)\b", re.IGNORECASE)
_COUNT = re.compile(r"\b(\d{1,2}) (?:\w+ )?(?:ways|queries|questions|rewordings)\b")
_USUAL_COUNT = 3
_MOST = 20
_COMMON = frozenset(
    _WORD.findall(
        "a an and are as at be by can did do does for from had has have how i in is it its me my of on or that the their "
        "there they this to was we were what when where which who whom whose why will with would you your"
    )
)


def quoted(messages: Messages) -> str:
    """The text of one reply. Pure: it depends on the messages' text alone."""
    text = "\n".join(message_text(message.get("content")) for message in messages)
    sentences = [sentence for each in _SENTENCE_END.split(text) if (sentence := _LABEL.sub("", each.strip()))]
    question = next((each for each in reversed(sentences) if each.endswith("?")), "")
    if _LIST.search(text):
        # What asks for the list may stand before the question: "Reword, as a JSON list: Who …?"
        question = question.rpartition(": ")[2]
        asked = _COUNT.search(text)
        wanted = min(_MOST, int(asked[1])) if asked else _USUAL_COUNT
        return json.dumps(_reworded(question or (sentences[-1] if sentences else ""), wanted))
    wanted_words = frozenset(_words(question))
    best, most = NOTHING, 0
    for sentence in sentences:
        shared = len(wanted_words.intersection(_words(sentence)))
        # The later one of two alike: what was found before stands last in a prompt.
        if not sentence.endswith("?") and shared >= max(most, 1):
            best, most = sentence, shared
    return best


def _words(text: str) -> list[str]:
    """Its words without the common ones, each once."""
    return [word for word in dict.fromkeys(_WORD.findall(text.lower())) if word not in _COMMON]


def _reworded(question: str, count: int) -> list[str]:
    words = _words(question)
    fewer = (" ".join(words[:at] + words[at + 1 :]) for at in range(len(words) if len(words) > 1 else 0))
    return list(islice(filter(None, dict.fromkeys((question, " ".join(words), *fewer))), count))
