"""Reading a vLLM server's page of figures, as it really looks, and as it must not break us."""

from __future__ import annotations

import pytest

from engines.vllm_metrics import ServerFigures, read_figures

PAGE = b"""\
# HELP python_info Python platform information
# TYPE python_info gauge
python_info{implementation="CPython",major="3"} 1.0
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="tiny"} 3.0
# HELP vllm:num_requests_waiting Number of requests waiting to be processed.
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="tiny"} 2.0
# TYPE vllm:num_requests_waiting_by_reason gauge
vllm:num_requests_waiting_by_reason{engine="0",model_name="tiny",reason="capacity"} 2.0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="tiny"} 0.25
# TYPE vllm:prefix_cache_queries_total counter
vllm:prefix_cache_queries_total{engine="0",model_name="tiny"} 336.0
# TYPE vllm:prefix_cache_hits_total counter
vllm:prefix_cache_hits_total{engine="0",model_name="tiny"} 320.0
# TYPE vllm:external_prefix_cache_hits_total counter
vllm:external_prefix_cache_hits_total{engine="0",model_name="tiny"} 7.0
"""


def test_the_figures_are_found_among_all_others() -> None:
    assert read_figures(PAGE) == ServerFigures(3, 2, 0.25)


def test_the_size_of_the_cache_is_told_in_labels() -> None:
    line = b'vllm:cache_config_info{block_size="16",engine="%d",num_gpu_blocks="%s"} 1.0\n'
    told = read_figures(PAGE + line % (0, b"1000") + line % (1, b"500"))
    assert told is not None and told.kv_tokens == 24_000
    unknown = read_figures(PAGE + line % (0, b"None"))
    assert unknown is not None and unknown.kv_tokens is None


def test_several_engine_cores_add_up_and_the_fullest_cache_counts() -> None:
    second = PAGE.replace(b'engine="0"', b'engine="1"').replace(b"0.25", b"0.75")
    lines = [line for line in (PAGE + second).splitlines() if not line.startswith(b"#")]
    assert read_figures(b"\n".join(lines)) == ServerFigures(6, 4, 0.75)


@pytest.mark.parametrize(
    "page", [b"", b"up 1\n", b"<html>not found</html>", b"vllm:kv_cache_usage_perc 0.5\n"]
)
def test_a_page_that_does_not_tell_what_runs_tells_nothing(page: bytes) -> None:
    assert read_figures(page) is None


def test_a_page_without_labels_or_caches_is_read_too() -> None:
    assert read_figures(b"vllm:num_requests_running 1\n") == ServerFigures(1, 0, None)


def test_a_line_that_cannot_be_read_is_an_error_and_not_a_figure() -> None:
    with pytest.raises(ValueError):
        read_figures(b"vllm:num_requests_running{engine= many\n")
