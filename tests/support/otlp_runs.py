"""What the tests of the OpenTelemetry exporter share."""

from __future__ import annotations

from collections.abc import Mapping

from azureinit.config.model import Config, Telemetry
from azureinit.machine import Machine
from azureinit.telemetry.events import WARN, Events
from azureinit.telemetry.otlp import Otlp
from support.otel import Collector

SEED = "0af7651916cd43dd8448eb211c80319c"
ENDPOINT, TRACES, LOGS = (f"OTEL_EXPORTER_OTLP_{name}ENDPOINT" for name in ("", "TRACES_", "LOGS_"))
Told = list[tuple[int, str]]


def configured(url: str = "", *, budget: float = 5.0) -> Config:
    return Config(telemetry=Telemetry(otlp_endpoint=url, otlp_budget_secs=budget))


class Agent:
    """A machine with nothing but a collector to talk to."""

    def __init__(self, config: Config, environ: Mapping[str, str] | None = None, **about: str) -> None:
        self.machine = Machine(environ={})
        self.otlp = Otlp(self.machine, config, environ or {}, seed=SEED, about=about)
        self.events = Events(clock=self.machine.clock, listeners=(self.otlp,), seed=SEED)

    def send(self, *, seconds: float = 30.0) -> Told:
        told: Told = []
        deadline = self.machine.clock.monotonic() + seconds
        self.otlp.send(deadline, tell=lambda level, _name, text: told.append((level, text)))
        return told


def told_by(collector: Collector, environ: Mapping[str, str] | None = None, **about: str) -> Told:
    """What came of telling one step and one warning."""
    agent = Agent(configured(collector.url), environ, **about)
    with agent.events.step("hostname"):
        agent.events.tell(WARN, "config", "unknown key")
    return agent.send()
