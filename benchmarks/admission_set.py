"""A seeded set of texts with planted personal data, secrets and injections, and of harmless texts that look like them.

Nothing here belongs to anybody: numbers are drawn at random and given their check digits, keys are random characters in a
provider's form. The set shares its author with the detectors: it measures regressions and compares libraries, it does not
promise a recall in the wild.
"""

from __future__ import annotations

import base64
import random
import string
from collections.abc import Callable
from dataclasses import dataclass

import phonenumbers
from stdnum import luhn, verhoeff
from stdnum.br import cpf
from stdnum.es import dni
from stdnum.iso7064 import mod_97_10

from benchmarks_admission_words import CITIES, FIRST, HARD_NEGATIVES, INJECTIONS, LAST, MENTIONS, ORDINARY, STREETS

REGIONS = ("US", "GB", "DE", "FR", "ES", "IT", "NL", "AU", "IN", "BR", "JP", "CH", "SE", "PL", "MX", "ZA", "KR", "NG")
HOME = ("US", "GB", "DE", "FR", "ES", "IT", "NL", "AU", "IN", "BR", "JP", "CH")
ALNUM = string.ascii_letters + string.digits


@dataclass(frozen=True, slots=True)
class Case:
    """One text. `values` must be found; in a case without any nothing must."""

    group: str
    """private | secret | injection | harmless"""
    kind: str
    text: str
    values: tuple[str, ...] = ()
