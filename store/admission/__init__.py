"""Which answers may become examples, and with what text. The entry is Admission.judge; everything else serves it."""

from store.admission.chain import FORM_RULES, REASONS, Admission, form_refusal
from store.admission.contributors import Contributor, ContributorLimits
from store.admission.finished import AdmissionSettings, Finished, Mode, Origin, Twin, TwinOf, Verdict

__all__ = [
    "FORM_RULES",
    "REASONS",
    "Admission",
    "AdmissionSettings",
    "Contributor",
    "ContributorLimits",
    "Finished",
    "Mode",
    "Origin",
    "Twin",
    "TwinOf",
    "Verdict",
    "form_refusal",
]
