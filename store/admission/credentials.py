"""Finds secrets: keys and tokens by their providers' prefixes, private keys, passwords in URLs and settings, random strings.

What a provider's prefix marks is certain. What only looks random is believed unless its surroundings say digest, picture
or identifier. No network: nothing is tried out. Every function is pure and linear in the text.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Iterator

from store.admission.patterns import Pattern, before
from store.admission.spans import Span, apart

_T = r"[A-Za-z0-9_-]"
_PREFIXED = (
    # OpenAI and Anthropic, OpenRouter, DeepSeek and others that took over the form; then other model providers.
    r"sk-(?:proj-|svcacct-|admin-|ant-(?:api\d\d-|admin\d\d-)?|or-v1-|lf-)?[A-Za-z0-9_-]{16,}",
    r"us-[A-Za-z0-9_-]{32,}",
    r"(?:gsk|xai|pplx|fw|nvapi|csk|tgp_v1|jina)[-_][A-Za-z0-9_-]{20,}|hf_[A-Za-z0-9]{24,}"
    r"|r8_[A-Za-z0-9]{24,}",
    r"(?:AKIA|ASIA|AROA|AIDA|ABIA|ACCA)[A-Z2-7]{16}|ABSK[A-Za-z0-9+/=]{40,}",
    r"gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{40,}",
    r"gl(?:pat|dt|rt|oas|ptt|ft|soat|cbt|agent|imt)-[A-Za-z0-9_.-]{16,}",
    r"xox[abeoprs](?:\.xox[bp])?-[A-Za-z0-9-]{10,}|xapp-\d-[A-Za-z0-9-]{10,}",
    r"(?:https?://)?(?:hooks\.slack\.com/(?:services|workflows|triggers)/"
    r"|discord(?:app)?\.com/api/webhooks/|outlook\.office\.com/webhook/)"
    r"[A-Za-z0-9_/-]{16,}",
    r"[sr]k_(?:live|test)_[A-Za-z0-9]{16,}|whsec_[A-Za-z0-9+/=]{16,}",
    r"AIza[A-Za-z0-9_-]{30,}|ya29\.[A-Za-z0-9_-]{20,}|GOCSPX-[A-Za-z0-9_-]{20,}"
    r"|AAAA[A-Za-z0-9_-]{7}:[A-Za-z0-9_-]{100,}",
    r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}|key-[0-9a-f]{32}|[0-9a-f]{32}-us\d{1,2}"
    r"|xkeysib-[a-f0-9]{40,}[A-Za-z0-9-]*",
    r"(?:SK|AC)[0-9a-f]{32}|npm_[A-Za-z0-9]{30,}|pypi-AgEI[A-Za-z0-9_-]{40,}|rubygems_[0-9a-f]{40,}"
    r"|dckr_(?:pat|oat)_[A-Za-z0-9_-]{20,}",
    r"\d{8,10}:AA[A-Za-z0-9_-]{30,}|[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,}",
    r"do[opr]_v1_[0-9a-f]{40,}|shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}|sq0[a-z]{3}-[A-Za-z0-9_-]{20,}"
    r"|EAAA[A-Za-z0-9_-]{56,}",
    r"dapi[0-9a-f]{32}(?:-\d)?|lin_api_[A-Za-z0-9]{30,}|ntn_[A-Za-z0-9]{36,}|secret_[A-Za-z0-9]{40,}"
    r"|PMAK-[0-9a-f-]{40,}",
    r"gl(?:sa|c)_[A-Za-z0-9_+/=]{28,}|hv[sbr]\.[A-Za-z0-9_-]{20,}"
    r"|[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{50,}",
    r"dp\.(?:pt|st|ct|sa)\.[A-Za-z0-9._-]{30,}|NRAK-[A-Z0-9]{24,}|NRII-[A-Za-z0-9-]{30,}"
    r"|HRKU-[A-Za-z0-9_-]{30,}|nfp_[A-Za-z0-9]{30,}",
    r"pat[A-Za-z0-9]{14}\.[0-9a-f]{60,}|fig[dru]_[A-Za-z0-9_-]{30,}|sntry[su]_[A-Za-z0-9_=+/-]{30,}"
    r"|sbp_[0-9a-f]{36,}|sb_secret_[A-Za-z0-9_-]{20,}",
    r"AGE-SECRET-KEY-1[A-Z0-9]{50,}|ATATT3[A-Za-z0-9_=-]{100,}|ATCTT3[A-Za-z0-9_=-]{60,}"
    r"|AKCp[A-Za-z0-9]{30,}|CMVT[A-Za-z0-9]{30,}",
    r"FlyV1 [A-Za-z0-9_,+/=-]{30,}|fo1_[A-Za-z0-9_-]{40,}|pscale_(?:tkn|pw|oauth)_[A-Za-z0-9_.-]{30,}"
    r"|rnd_[A-Za-z0-9]{28,}|vercel_blob_rw_[A-Za-z0-9_]{30,}",
)
# One by one: as a single alternation their counted repeats multiply, and the automaton outgrows its memory.
_API_KEYS = tuple(Pattern(rf"\b(?:{form})") for form in _PREFIXED)
_COUNTED = re.compile(r"\{\d+(?:,\d*)?\}")
# Without the counts they fit one automaton, which finds everything that they find and more: most texts end here.
_LIKE_API_KEY = Pattern(rf"\b(?:{'|'.join(_COUNTED.sub('+', form) for form in _PREFIXED)})")
_PRIVATE_KEY = Pattern(
    r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----(?:[A-Za-z0-9+/=\s:,.-]|\\[nr])*?"
    r"(?:-----END (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----|$)"
    r"|-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY"
    r"|PuTTY-User-Key-File-\d",
    needs="-",
)
_JWT = Pattern(r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?", needs=".")
_URL_PASSWORD = Pattern(
    r"[a-zA-Z][a-zA-Z0-9+.-]{1,20}://[^\s/:@'\"<>]{0,80}:([^\s/@'\"<>]{2,120})@", needs="@"
)
_AUTHORIZATION = Pattern(
    r"(?:authorization|x-api-key|x-auth-token|api-key)[\"']?\s{0,3}[:=]\s{0,3}[\"']?(?:bearer|basic"
    r"|token|apikey)?\s{0,3}"
    r"([a-z0-9+/=_.~-]{12,})",
    needs=":=",
    any_case=True,
)
_NAME = (
    r"(?:pass(?:word|wd|phrase|code)?|pwd|secret|token|credentials?|(?:api|access|secret|private|auth"
    r"|account|encryption|"
    r"signing|master|storage|shared|subscription|client)[_ -]?(?:access)?[_ -]?(?:key|token|secret)"
    r"|passwort|contraseña|"
    r"mot de passe|sharedaccesskey|accountkey|authkey|sig)"
)
_SETTING = Pattern(
    r"("
    + _NAME
    + r"[a-z0-9_]{0,12})[\"'`*\])]{0,3}\s{0,3}(:=|=>|==|=|:|\bis\b(?: now| set to)?|\bis:|→)\s{0,3}[*]{0,2}"
    r"(\"[^\"\n]{4,200}\"|'[^'\n]{4,200}'|`[^`\n]{4,200}`|[^\s\"'`,;<>|]{4,200})",
    needs="=:si→",
    any_case=True,
)
_PIN = Pattern(
    r"\b(?:pin|otp|cvv|cvc|security code|verification code|one[- ]time code)(?: code"
    r"| number)?\s{0,2}(?:is|:|=|was)\s{0,2}(\d{3,8})\b",
    any_case=True,
)
_RANDOM = Pattern(r"[A-Za-z0-9+/_=.~-]{20,}")
_PIECES = Pattern(r"[A-Za-z0-9]{20,}")
_DIGEST_WORDS = (
    "sha1-",
    "sha256-",
    "sha384-",
    "sha512-",
    "base64,",
    "ssh-rsa ",
    "ssh-ed25519 ",
    "integrity",
    "h1:",
)
_CERTIFICATE = Pattern(
    r"-----BEGIN (?:CERTIFICATE|PUBLIC KEY|RSA PUBLIC KEY|PGP PUBLIC KEY BLOCK|PGP MESSAGE"
    r"|PGP SIGNATURE)-----"
    r"[A-Za-z0-9+/=\s:,.-]*?-----END",
    needs="-",
)
_PLACEHOLDERS = (
    *(
        "your",
        "xxx",
        "***",
        "...",
        "…",
        "example",
        "placeholder",
        "changeme",
        "change_me",
        "redacted",
        "dummy",
        "insert",
    ),
    *(
        "${",
        "{{",
        "<",
        "$(",
        "os.",
        "env",
        "process.",
        "getpass",
        "input(",
        "none",
        "null",
        "undefined",
        "todo",
        "sample",
    ),
    *(
        "[",
        "config",
        "settings",
        "self.",
        "request.",
        "args.",
        "params",
        "secret_key",
        "api_key",
        "apikey",
        "my_",
        "my-",
    ),
)
_SHORTEST_PASSWORD = 6
_LONGEST_RANDOM = 200
_LEAST_BITS = 3.5
_LEAST_CHANGES = 0.38


def credentials(text: str) -> list[Span]:
    """What was found, in order, none overlapping. A few milliseconds per 100 kB of ordinary text."""
    return apart([*_marked(text), *_passwords(text), *_random(text)])


def _marked(text: str) -> Iterator[Span]:
    for pattern in _API_KEYS if _LIKE_API_KEY.within(text) else ():
        for match in pattern.all(text):
            if _varied(match.group()):
                yield Span("API_KEY", match.start(), match.end(), match.group())
    for kind, pattern in (("PRIVATE_KEY", _PRIVATE_KEY), ("TOKEN", _JWT)):
        for match in pattern.all(text):
            yield Span(kind, match.start(), match.end(), match.group())


def _varied(token: str) -> bool:
    """Not a placeholder such as sk-xxxxxxxxxxxxxxxx or sk-your-api-key-goes-here."""
    lowered = token.lower()
    if any(
        p in lowered for p in ("xxxx", "your", "example-", "-key-", "000000", "123456789", "_here", "-here")
    ):
        return False
    if token == lowered and "-" in token[4:] and not any(c.isdigit() for c in token):
        return False
    return len(set(token[-16:])) >= 6 and (
        any(c.isdigit() for c in token) or _bits(token) > _LEAST_BITS - 0.3
    )


def _passwords(text: str) -> Iterator[Span]:
    for match in _URL_PASSWORD.all(text):
        if not _placeholder(match.group(1)) and match.group(1).lower() not in (
            "password",
            "pass",
            "pwd",
            "secret",
        ):
            yield Span("PASSWORD", match.start(1), match.end(1), match.group(1))
    for match in _AUTHORIZATION.all(text):
        value = match.group(1)
        if any(c.isdigit() for c in value) and not _placeholder(value):
            yield Span("TOKEN", match.start(1), match.end(1), value)
    for match in _SETTING.all(text):
        value, start, end = match.group(3), match.start(3), match.end(3)
        quoted = value[0] in "\"'`"
        if quoted:
            value, start, end = value[1:-1], start + 1, end - 1
        else:
            if text[match.start() - 1 : match.start()] in ("?", "&"):
                value = value.partition("&")[0]
            value = value.rstrip(".?*)" if match.group(2)[:1] in "=:" else ".!?*)")
            end = start + len(value)
        if _secret_value(value, quoted=quoted, prose=match.group(2).lower().startswith("is")):
            yield Span("PASSWORD", start, end, value)
    for match in _PIN.all(text):
        yield Span("CODE", match.start(1), match.end(1), match.group(1))


def _secret_value(value: str, *, quoted: bool, prose: bool) -> bool:
    if len(value) < _SHORTEST_PASSWORD or _placeholder(value) or len(set(value)) < 4:
        return False
    if any(c in value for c in " \t") and not quoted:
        return False
    letters, digits = any(c.isalpha() for c in value), any(c.isdigit() for c in value)
    signs = any(not c.isalnum() and c not in "_-./:()[]{}=,'\" " for c in value)
    if value.isidentifier() and not digits:
        # token: string, password = password_field, "the secret is patience"
        return not prose and quoted and _bits(value) > 3 and value != value.lower()
    if any(c in value for c in "(){}[];"):
        return signs and digits and "(" not in value
    if " " in value:
        return digits and signs
    if value.isdigit():
        return len(value) <= 12
    return (letters and digits) or (signs and letters)


def _placeholder(value: str) -> bool:
    lowered = value.lower()
    return any(p in lowered for p in _PLACEHOLDERS) or set(lowered) <= set("x*.-_•0")


def _random(text: str) -> Iterator[Span]:
    harmless = [(m.start(), m.end()) for m in _CERTIFICATE.all(text)]
    for run in _RANDOM.all(text):
        ahead = before(text, run.start(), 24)
        if run.end() - run.start() > _LONGEST_RANDOM or any(w in ahead for w in _DIGEST_WORDS):
            continue
        if any(start <= run.start() < end for start, end in harmless):
            continue
        token = run.group()
        if token.lower().startswith(("sha1-", "sha256-", "sha384-", "sha512-", "h1:")):
            continue
        for piece in _PIECES.all(token):
            if _looks_random(piece.group()):
                yield Span("TOKEN", run.start(), run.end(), token)
                break


def _looks_random(token: str) -> bool:
    """Upper, lower and digits thrown together: names written in CamelCase change their kind of character seldom."""
    digits = sum(c.isdigit() for c in token)
    if digits < 1 or token == token.lower() or token == token.upper():
        return False
    kinds = [c.isdigit() + 2 * c.isupper() for c in token]
    changes = sum(a != b for a, b in itertools.pairwise(kinds)) / (len(token) - 1)
    return (
        changes >= (_LEAST_CHANGES if digits > 1 else _LEAST_CHANGES + 0.08) and _bits(token) >= _LEAST_BITS
    )


def _bits(token: str) -> float:
    """Shannon's entropy in bits per character."""
    return -sum(n / len(token) * math.log2(n / len(token)) for n in Counter(token).values())
