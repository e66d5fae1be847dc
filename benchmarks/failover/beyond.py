"""Beyond the catalogue."""
from benchmarks.failover.scenario import Scenario
BEYOND: tuple[Scenario, ...] = ()
