"""What is held with both kinds of connection, our own and aiohttp's, and by which tests."""

from __future__ import annotations

import importlib

import pytest

from tests.flow.kinds import KINDS

COVERED = {
    "clients that send slowly": [
        "flow.test_bounds:test_a_body_that_does_not_go_on_is_408",
        "flow.test_bounds:test_an_upload_that_stops_while_it_is_passed_on_is_408",
        "flow.test_hostile_connections:test_slow_connections_do_not_keep_others_waiting",
        "gateway.test_server:test_who_waits_in_vain_for_a_body_is_told",
        "gateway.test_server:test_while_nobody_reads_a_body_it_is_not_the_clients_pause",
    ],
    "clients that read slowly": [
        "flow.test_bodies:test_a_slow_reader_slows_the_upstream",
        "flow.test_bodies:test_a_slow_reader_of_a_stream_slows_the_upstream_and_gets_every_event",
        "gateway.test_plain:test_a_slow_reader_holds_the_writer_back",
    ],
    "the cap on connections": ["flow.test_bounds:test_one_connection_too_many_is_refused_at_once"],
    "an ordered stop": [
        "flow.test_shutdown:test_an_idle_gateway_ends_at_once_with_status_0",
        "flow.test_shutdown:test_an_open_stream_finishes_and_new_connections_are_refused",
        "flow.test_shutdown:test_a_waiting_request_is_still_answered",
        "flow.test_shutdown:test_an_upload_under_way_finishes",
        "flow.test_shutdown:test_a_stream_beyond_the_grace_period_is_cut_and_never_looks_whole",
        "gateway.test_server:test_a_stop_lets_an_upload_finish",
        "gateway.test_server:test_a_request_that_comes_as_its_idle_connection_is_to_be_closed_is_answered",
    ],
    "limits of heads": [
        "flow.test_hostile_connections:test_too_much_head_is_refused_in_openai_shape",
    ],
    "response splitting": [
        "gateway.test_plain:test_a_header_that_would_begin_another_one_closes_the_connection"
    ],
    "request smuggling": [
        "flow.test_smuggling:test_is_refused_in_openai_shape_and_nothing_of_it_is_answered_upstream",
        "flow.test_smuggling:test_the_hidden_request_after_a_body_of_known_length_is_the_clients_next_one",
        "flow.test_smuggling:test_an_upload_that_breaks_its_framing_never_looks_finished_upstream",
        "flow.test_smuggling:test_a_chat_body_that_breaks_its_framing_is_refused_at_once",
        "flow.test_smuggling:test_an_upload_whose_client_leaves_never_looks_finished_upstream",
    ],
    "clients that leave": [
        "flow.test_disconnect:test_before_the_head",
        "flow.test_disconnect:test_before_the_first_token",
        "flow.test_disconnect:test_mid_stream",
        "flow.test_disconnect:test_in_the_middle_of_a_whole_answer",
        "flow.test_disconnect:test_while_the_upstream_writes_without_a_pause",
        "gateway.test_plain:test_a_client_that_leaves_cancels_its_handler",
    ],
    "hostile bytes": [
        "flow.test_hostile_connections:test_garbage_is_refused_and_the_gateway_lives",
        "flow.test_hostile_connections:test_a_request_with_one_byte_turned_is_answered_or_refused_but_never_a_500",
        "flow.test_hostile_connections:test_half_a_request_that_ends_leaves_nothing_behind",
        "flow.test_hostile_connections:test_connections_that_come_and_go_leave_no_memory_and_no_files",
        "flow.test_hostile_connections:test_an_endless_pipeline_is_held_back",
    ],
    "hostile bodies": [
        "flow.test_hostile_bodies:test_what_nobody_here_reads_goes_on_as_it_came",
        "flow.test_hostile_bodies:test_a_body_cannot_say_where_it_goes",
        "flow.test_hostile_bodies:test_a_length_over_the_limit_is_413_before_it_is_sent",
        "flow.test_hostile_bodies:test_chunks_over_the_limit_are_413",
        "flow.test_hostile_bodies:test_a_gzip_bomb_is_413_and_costs_little_memory",
        "flow.test_hostile_bodies:test_a_body_of_millions_of_values_does_not_eat_the_memory",
    ],
}
"""That whole conversations are answered with the same bytes is held by
`tests/gateway/test_plain.py::test_both_kinds_of_connection_say_the_same`."""


@pytest.mark.parametrize("test", [test for tests in COVERED.values() for test in tests])
def test_each_is_held_with_both_kinds(test: str) -> None:
    module, _, name = test.partition(":")
    marks = getattr(importlib.import_module(f"tests.{module}"), name).pytestmark
    assert any(mark.name == "parametrize" and mark.args[1] is KINDS for mark in marks)
