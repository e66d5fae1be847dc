"""Sentences for the events of starting."""

from gateway.log_texts import text_of


def test_an_event_of_starting_is_a_sentence_with_its_figures() -> None:
    assert text_of("embedding_model_built", {"seconds": 6.0}) == "built the embedding model in 6.0 s"


def test_other_events_and_events_without_their_fields_have_none() -> None:
    assert text_of("request", {"url": "/"}) is None
    assert text_of("listening", {}) is None
    assert text_of(None, {}) is None
