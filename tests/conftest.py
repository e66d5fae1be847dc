"""What every test shares. onnxruntime comes first: imported after usearch it crashes the process
(docs/reference/dependencies.md)."""

import onnxruntime  # noqa: F401
from hypothesis import HealthCheck, settings

from gateway.log import configure
from router.embedding.model import users_models
from store import writing

configure()

# Tests wait for what they write, row by row: the writer need not wait for more of it each time.
writing._GATHER_S = 0.001

# Every gateway that a test starts finds the embedding model here, built once instead of for each data folder.
users_models().mkdir(parents=True, exist_ok=True)

# A property is about what holds, not about how fast: a machine that stalls for a moment must not break it.
# Nor must chance: the same code meets the same cases. `--hypothesis-profile=searching` looks for new ones.
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("searching", unhurried)
settings.register_profile("steady", unhurried, derandomize=True, database=None)
settings.load_profile("steady")

pytest_plugins = ["tests.postgres_fixtures", "tests.tls_fixtures", "tests.worlds"]
