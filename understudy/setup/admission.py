"""From the settings to the admission chain: one place, so that served, given and imported pairs meet the same rules."""

from __future__ import annotations

from store.admission import Admission, AdmissionSettings, ContributorLimits
from understudy.settings.memory import ExampleSettings


def admission(settings: ExampleSettings) -> Admission:
    """The chain these settings describe."""
    rules = settings.admission
    return Admission(
        AdmissionSettings(
            engines=frozenset(rules.engines),
            good_quality=rules.good_quality,
            min_question_characters=rules.min_question_chars,
            min_answer_characters=rules.min_answer_chars,
            max_characters=settings.max_chars,
            embedded_characters=settings.embedding.max_characters,
            secrets=rules.secrets,
            private_data=rules.private_data,
            instructions=rules.instructions,
            public=frozenset(rules.public),
            contributors=ContributorLimits(
                max_examples=rules.contributor_max_examples,
                max_per_hour=rules.contributor_max_per_hour,
                quarantine_h=rules.quarantine_h,
                trusted_after=rules.trusted_after,
            ),
        )
    )
