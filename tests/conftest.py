"""What every test shares. onnxruntime comes first: imported after usearch it crashes the process
(docs/reference/dependencies.md)."""

import onnxruntime  # noqa: F401
from hypothesis import HealthCheck, settings

from gateway.log import configure

configure()

# A property is about what holds, not about how fast: a machine that stalls for a moment must not break it.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")
