"""Which answers may become examples, and with what text. The entry is Admission.judge; everything else serves it."""

from store.admission.chain import FORM_RULES, REASONS, Admission, form_refusal
from store.admission.contributors import Contributor, ContributorLimits
from store.admission.pair import AdmissionSettings, Mode, Origin, Pair, Twin, TwinOf, Verdict

__all__ = [
    "FORM_RULES",
    "REASONS",
    "Admission",
    "AdmissionSettings",
    "Contributor",
    "ContributorLimits",
    "Mode",
    "Origin",
    "Pair",
    "Twin",
    "TwinOf",
    "Verdict",
    "form_refusal",
]
