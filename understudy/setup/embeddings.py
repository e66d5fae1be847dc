"""The endpoint of embeddings, where exact repeats are answered from memory."""

from __future__ import annotations

from functools import lru_cache

from gateway.endpoints.embeddings import Embeddings, ServedBy
from gateway.keepers.embedding import EmbeddingKeeper
from understudy.built import Built
from understudy.settings.config import AnyEngine
from understudy.settings.upstream import Upstream
from understudy.setup.model_endpoints import endpoint
from understudy.setup.served_by import digest, ignored_fields, unknown_servers


def add_to(built: Built) -> None:
    """Serve `/v1/embeddings`."""
    config, exact, end_users, recorder = (
        built.config,
        built.remembered.exact,
        built.end_users,
        built.recorder,
    )
    assert config.memory is not None and end_users is not None
    assert exact is not None and recorder is not None
    keeper = built.embeddings_kept = EmbeddingKeeper(exact, recorder.follow)
    built.parts.add(keeper, stop=keeper.close)

    def served_by(engines: tuple[str, ...]) -> ServedBy:
        servers: list[AnyEngine | Upstream] = [config.engines[name] for name in engines]
        if not engines and config.upstream is not None:
            servers = [config.upstream]
        told = "\n".join([*engines, digest(servers)])
        return ServedBy(told, ignored_fields(servers), unknown_servers(servers))

    embeddings = Embeddings(
        exact,
        keeper,
        built.passthrough,
        served_by=lru_cache(maxsize=1024)(served_by),
        max_kept_bytes=int(config.memory.advanced.exact_max_entry_kib * 1024),
        end_users=end_users,
        by_model=built.by_model,
        same=built.same,
    )
    built.endpoints["POST", "/embeddings"] = endpoint(built, None, embeddings)
