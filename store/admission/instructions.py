"""Finds text that speaks to a model rather than to a person: an example that says "ignore what came before" is an attack.

What is looked for is the speech act, in several languages and disguises, not the subject: a question about prompt
injection passes, one that quotes a working payload does not, because inside an example the quotation marks protect nobody.
Every function is pure and linear in the text.
"""

from __future__ import annotations

from store.admission.hidden_text import ciphers, hides, readings
from store.admission.patterns import Pattern

_PAST = (
    r"(?:all|any|the|your|my|of|these|those|every|everything|whatever|previous(?:ly)?|prior|above"
    r"|earlier|preceding|foregoing|initial|original|former|given|existing|current|system|safety|content"
    r"|other|aforementioned|and|or|that|been|have|has|you|were|was|told|said|written|,)"
)
_RULES = (
    r"(?:instructions?|prompts?|rules|directions?|directives?|guidelines|guardrails|programming"
    r"|constraints|restrictions|polic(?:y|ies)|system messages?|training|safeguards|commands)"
)
_OVERRIDE = (
    r"\b(?:ignore|disregard|forget|override|overrule|bypass|skip|neglect|discard|drop|erase"
    r"|pay no attention to|do not (?:follow|obey)|don't (?:follow|obey)|stop following)"
    r"[\s\"'*_:]{1,4}(?:" + _PAST + r"[\s\"'*_,]{1,3}){1,7}" + _RULES + r"\b"
)
_OVERRIDE_TOLD = (
    r"\b(?:ignore|disregard|forget) (?:everything|anything|all|whatever|what)(?: that)?(?: (?:was|were"
    r"|is|has been|have been|you were|you have been|you've been|i|we))?"
    r"(?: (?:said|told|written|stated|instructed|given|taught|learned))? ?(?:to you )?(?:above"
    r"|before(?:hand)?|so far|previously|earlier|prior to this|until now|up to (?:now|this point))\b"
)
_OTHER_TONGUES = (
    r"\b(?:ignorier\w*|vergiss|missachte\w*|vergessen sie) (?:\pL+ ){0,4}?(?:anweisungen|instruktionen"
    r"|regeln|vorgaben|befehle)\b"
    r"|\b(?:ignore[zr]?|oublie[zr]?|ne (?:tiens|tenez) pas compte d\w*) (?:\pL+ ){0,4}?(?:instructions"
    r"|consignes|directives|règles)\b"
    r"|\b(?:ignora|ignore|olvida|olvide|haz caso omiso de|descarta) (?:\pL+ ){0,4}?(?:instrucciones"
    r"|indicaciones|reglas|órdenes)\b"
    r"|\b(?:ignora|dimentica|ignorate) (?:\pL+ ){0,4}?(?:istruzioni|regole|indicazioni)\b"
    r"|\b(?:ignore|esqueça|desconsidere) (?:\pL+ ){0,4}?(?:instruções|regras|orientações)\b"
    r"|(?:игнорируй|забудь|проигнорируй)\pL* (?:\pL+ ){0,4}?(?:инструкци|указани|правил)"
    r"|(?:忽略|无视|忘记|不要理会).{0,12}?(?:指令|指示|规则|提示|说明)|(?:指示|命令|ルール|プロンプト).{0,8}?(?:無視|忘れ)"
    r"|(?:이전|위의|모든).{0,10}?(?:지시|명령|규칙).{0,6}?(?:무시|잊)|تجاهل.{0,20}?(?:التعليمات|الأوامر)"
)
_MARKERS = (
    r"<\|[a-z_]{2,24}\|>|<\|?/?(?:im_start|im_end|im_sep|endoftext|eot_id|start_header_id|end_of_turn"
    r"|start_of_turn|begin_of_text)\|?>"
    r"|\[/?INST\]|<</?SYS>>|<\x{ff5c}[^\n]{2,24}?\x{ff5c}>|</?(?:system|assistant"
    r"|developer)(?:[_ -]?(?:prompt|message|instructions?))?>"
    r"|\[(?:system|assistant|developer)(?: (?:message|prompt|override|note))?\](?:\(#\w+\))?"
    r"|(?:^|\n)\s{0,3}#{2,4}\s{0,2}(?:system|instructions?|assistant|human)\s{0,2}:"
    r"|\{\s{0,4}\"role\"\s{0,3}:\s{0,3}\"(?:system|developer|assistant)\"|<function_calls>|<tool_call>"
    r"|\bbegin system prompt\b"
)
_ROLE_LINE = (
    r"(?:^|\n|[.!?] )[\s>*#-]{0,4}(?:system|developer|admin(?:istrator)?|root|system (?:message|override|note"
    r"|update|prompt|notice))[*_\]]{0,2}\s{0,2}[:>][*_\s]{0,4}"
    r"(?:you\b|your\b|ignore|disregard|from now|new (?:instructions?|rules?|polic)|always|never|respond"
    r"|answer|reply|reveal|the (?:assistant|model|ai)|override|all (?:future|previous)|enter|enable"
    r"|safety|important)"
    r"|\n\s{0,3}(?:human|user)\s{0,2}:[^\n]+\n\s{0,3}assistant\s{0,2}:"
)
_PERSONA = (
    r"\byou(?: are|'re) (?:now )?(?:dan\b|in (?:developer|debug|god|admin|maintenance|jailbreak"
    r"|unrestricted) mode|(?:an? )?(?:unrestricted|unfiltered|uncensored|jailbroken)\b"
    r"|no longer (?:bound|restricted|an ai|a language model|required))"
    r"|\b(?:enter|enable|activate|switch (?:in)?to|engage) (?:the )?(?:dan|developer|debug|god|sudo"
    r"|jailbreak|unrestricted|admin) mode\b|\bdo anything now\b"
    r"|\b(?:without|free (?:of|from)|no) (?:any )?(?:ethical|moral|safety|content) (?:guidelines"
    r"|restrictions|filters|limitations|constraints)\b.{0,80}?\b(?:you|respond|answer|act|comply)\b"
    r"|\b(?:act|respond|behave|answer|pretend) as (?:if |though )?(?:you (?:have|had) no (?:restrictions"
    r"|rules|guidelines|filters)|an? (?:unrestricted|unfiltered|uncensored))"
)
_EXFILTRATE = (
    r"\b(?:reveal|print|show|repeat|output|leak|display|disclose|expose|dump|tell me|give me|recite"
    r"|reproduce|paste|translate|summari[sz]e|send)(?: (?:me|us|back|out|verbatim|exactly))? (?:the "
    r"|your |all |of |entire |full |complete |exact |contents of |text of )*"
    r"(?:your (?:\w+ )?(?:instructions|system prompt|prompt|rules|guidelines|configuration)|(?:system"
    r"|hidden|initial|original|secret|developer) (?:prompt|instructions?|messages?)|(?:words|text"
    r"|everything|instructions) above(?: this)?\b)"
    r"|\b(?:send|post|upload|forward|exfiltrate|append|transmit|leak"
    r"|submit)\b[^.\n]{0,80}\b(?:conversation|chat history|history|messages?|contents?|data|keys?"
    r"|passwords?|secrets?|prompts?|answers?|response)\b[^.\n]{0,40}\b(?:to|at"
    r"|via)\b[^.\n]{0,20}(?:https?://|hxxps?|[\w.-]+@)"
    r"|!\[[^\]\n]{0,80}\]\(https?://[^)\s]{0,200}(?:\{|\[|%7B|<)[^)\n]{0,120}\)"
)
_STANDING = (
    r"\bfrom now on,? (?:you|always|never|all|every|only|answer|respond|reply|when|if|in (?:all|every)"
    r"|your|whenever|refer|recommend|say|pretend|act|ignore|use)\b"
    r"|\b(?:in|for|to|on|during) (?:all|any|every|each|your)(?: of)?(?: your| the)? (?:future|subsequent"
    r"|later|following|upcoming|next) (?:questions?|requests?|responses?|answers?|repl(?:y|ies)"
    r"|conversations?|messages?|queries|prompts?|users?|interactions?|sessions?|outputs?)\b"
    r"|\b(?:whenever|every time|any time|anytime|each time|when|if) (?:you are|you're|you get|a user"
    r"|the user|users?|anyone|anybody|someone|somebody|people)(?: \w+)? (?:asked|asks?|mentions?"
    r"|inquires?|queries|wants|questions?)\b[^.\n]{0,120}\b(?:always|never|you must|you should|you will"
    r"|reply|respond|answer|say|tell|recommend|direct|insist)\b"
    r"|\bwhen(?:ever)? asked (?:about|for|to)\b[^.\n]{1,80}, (?:always|never|say|answer|reply|respond"
    r"|recommend|tell|you)\b"
    r"|\b(?:remember|memori[sz]e|store|save|learn|note)(?: this| that)?[:,]? (?:rule|fact|instruction"
    r"|for (?:later|the future|future|all)|permanently|forever|from now|and (?:always|use|apply))"
    r"|\b(?:permanently|forever) (?:change|update|replace|adopt|apply|remember) (?:your|this|these"
    r"|the following)"
    r"|\byour (?:new|only|real|true|actual|updated|revised) (?:instructions?|tasks?|goals?|rules?|role"
    r"|purpose|directives?|objective|system prompt|orders) (?:is|are|:|will|follow)"
    r"|\b(?:new|updated|important|urgent|revised|additional|secret|hidden) (?:system )?(?:instructions?"
    r"|directives?|orders) ?(?:for (?:the |all |any )?(?:ai|assistant|model|llm|chatbot|agent|bot)s?"
    r"|:\s{0,3}(?:you|ignore|always|never|do|reveal|respond|when|from|say|send))"
)
_TO_MODELS = (
    r"\b(?:attention|note|message|instructions?|memo|notice|hint|warning|dear|hey|hello|hi|to"
    r"|reminder)(?: to| for|,|:)?(?: (?:the|all|any|every))? (?:ai|llm|language model"
    r"|large language model|ai (?:assistant|agent|model|system)|assistant|chatbot"
    r"|model)s?\b[^.\n]{0,12}?(?:reading|processing|parsing|summari[sz]ing|evaluating|reviewing|seeing|:"
    r"|,? (?:you must|please (?:ignore|rate|say|respond|recommend|include|add|always)|ignore|do not"
    r"|don't|always|never))"
    r"|\bif you(?: are|'re) (?:an? )?(?:ai|llm|language model|large language model|ai (?:assistant|agent"
    r"|model)|chatbot|bot)\b[^.\n]{0,60}?(?:,|then|please|must|should|say|include|write|add|do|rate"
    r"|ignore)"
    r"|\b(?:any|the|all|every) (?:ai|llm|language model|ai (?:assistant|agent|model)|assistant"
    r"|chatbot)s? (?:that |which |who )?(?:is |are |who )?(?:reading|reads?|processing|process(?:es)?"
    r"|seeing|sees?|summari[sz](?:ing|es?)|parsing) (?:this|these)\b[^.\n]{0,40}\b(?:must|should|shall"
    r"|has to|have to|is required|needs? to|will)\b"
)
_HIDDEN_COMMENT = (
    r"<!--[^>]{0,400}?\b(?:ignore|disregard|you must|you should|instruct(?:ion|ed)?s?|assistant"
    r"|system prompt|do not tell|don't tell|secretly|always (?:say|respond|answer|recommend)|ai (?:model"
    r"|agent)|llm)\b"
    r"|<[a-z]{1,10}[^>]{0,200}(?:display\s{0,2}:\s{0,2}none|font-size\s{0,2}:\s{0,2}[01](?:px|pt|em)?\b"
    r"|opacity\s{0,2}:\s{0,2}0\b|visibility\s{0,2}:\s{0,2}hidden|color\s{0,2}:\s{0,2}(?:white"
    r"|#fff(?:fff)?))[^>]{0,120}>[^<]{0,300}\b(?:ignore|disregard|you must|assistant|instructions?"
    r"|respond|system)\b"
    r"|https?://\S{0,300}[?&#/=](?:prompt|instructions?|inject|system|cmd)=\S{0,40}(?:ignore|disregard"
    r"|reveal|you[+_%-]|always|forget|send)"
    r"|\b(?:do not|don't|never) (?:tell|inform|mention (?:this|it) to|reveal (?:this|it) to|let|alert"
    r"|notify) the (?:user|human|customer|operator|developer)s?\b"
    r"|\bfollow the (?:instructions|steps|commands|directions) (?:at|on|in|from|found at) (?:this (?:url"
    r"|link|page):? ?)?https?://"
)
_ANNULLED = (
    r"\b(?:previous|prior|earlier|above|old|former) (?:context|instructions?|rules|messages?|session|prompts?|conversation)"
    r" (?:is|are|was|were|has been|have been)?\s{0,2}(?:now )?(?:irrelevant|void|invalid|obsolete"
    r"|cancel+ed|terminated|revoked"
    r"|no longer|superseded|fake|a test|a joke)"
    r"|\bnever ?mind (?:what|everything|anything|the rules|the instructions)"
    r"|\b(?:real|actual|true|genuine) (?:instructions?|task|rules|prompt|orders) (?:is|are|follow|:)"
    r"|\b(?:clear|wipe|reset|erase|purge|delete) your (?:memory|context|instructions?|rules|programming|system prompt)"
    r"|\bnew (?:rules|policy|directives?|session rules): ?(?:you|respond|answer|ignore|reply|comply|always|never)"
    r"|(?:^|\n|[.!] )override: |\bthe instructions you (?:received|were given) (?:before|earlier)"
)
_UNBOUND = (
    r"\b(?:answer|answers|respond|responds|reply|replies|comply|complies|capabilities|speak|act|output"
    r"|operate)\b[^.\n]{0,60}?"
    r"\bwithout (?:any )?(?:restrictions?|refusal|exceptions?|filters?|limitations?|censorship|moral|ethical|safety)"
    r"|\b(?:with|has|have|having|does not have|doesn't have|freed? (?:of|from)) (?:absolutely )?(?:no|any|all) "
    r"(?:(?:content|safety|ethical|moral) (?:restrictions|guardrails|filters|polic(?:y|ies)|guidelines|constraints|rules))\b"
    r"|\b(?:ai|assistant|model|\w*gpt|chatbot|bot|dan|you)\b[^.\n]{0,40}\b(?:with|has|have|having) (?:absolutely )?no "
    r"(?:restrictions|guardrails|filters|limitations|rules)\b"
    r"|\bsafety (?:mode|checks?|filters?|protocols?)(?: (?:is|are))?(?: now)? (?:off|disabled|deactivated|suspended)\b"
    r"|\b(?:debug|developer|maintenance|admin|god|root) mode (?:is )?(?:now )?(?:enabled|activated|on)\b"
    r"|\bunfiltered (?:answer|response|version|reply)\b|\bnever (?:declines?|refuses?) (?:any|a) (?:request|question|order)"
)
_CLOSED_UP = (
    r"\b(?:ignore|disregard|forget|override)(?:all|any|the|your|of|my)*(?:previous|prior|above|earlier"
    r"|system)*"
    r"(?:instructions?|prompts?|rules|guidelines)"
)
_FAMILIES = tuple(
    (name, Pattern(expression, any_case=True))
    for name, expression in (
        ("override", _OVERRIDE),
        ("override", _OVERRIDE_TOLD),
        ("override", _OTHER_TONGUES),
        ("override", _CLOSED_UP),
        ("override", _ANNULLED),
        ("markers", _MARKERS),
        ("markers", _ROLE_LINE),
        ("persona", _PERSONA),
        ("persona", _UNBOUND),
        ("exfiltrate", _EXFILTRATE),
        ("standing", _STANDING),
        ("to_models", _TO_MODELS),
        ("concealed", _HIDDEN_COMMENT),
    )
)
_OVERRIDES = Pattern(_OVERRIDE, any_case=True)
FAMILIES = ("hidden", *dict.fromkeys(name for name, _ in _FAMILIES))
"""Kinds of instruction, in the order they are looked for."""


def instructions(text: str) -> str | None:
    """The family of the first instruction found (see FAMILIES), or None. Some milliseconds per 100 kB."""
    if hides(text):
        return "hidden"
    for reading in readings(text):
        for name, pattern in _FAMILIES:
            if pattern.within(reading):
                return name
    return "override" if any(_OVERRIDES.within(reading) for reading in ciphers(text)) else None
