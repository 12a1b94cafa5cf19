"""The decision layer as one stage: the loop over scores and events, a sender per consumer, and the API that takes their answers."""

from __future__ import annotations

import threading

import uvicorn

from alerting.api import app
from alerting.budget import Limits
from alerting.costs import CostModel
from alerting.delivery import Delivery, Endpoint
from alerting.ledger import Ledger
from alerting.lifecycle import LifecycleSettings
from alerting.loop import AlertLoop
from alerting.policy import PolicySettings
from alerting.secret import read_secrets
from alerting.settings import AlertSettings
from forewarn.named_files import state_dir_of
from forewarn.settings import AlertSection, Config
from ingest.clock import Clock
from ingest.errors import ConfigError
from ingest.lake import Lake

ENDPOINT = "scheduler"


class Alerting:
    """Everything of one process that decides and delivers; `run` ends when `stop` is set."""

    def __init__(self, config: Config, lake: Lake, clock: Clock) -> None:
        alert = config.alert
        self._look_s = max(0.1, alert.look_s / clock.scale)
        endpoint = _endpoint(alert)
        self.ledger = Ledger(state_dir_of(config) / config.fleet.ledger.name, endpoints=(endpoint.name,) if endpoint else ())
        self.loop = AlertLoop(lake, self.ledger, cluster=config.fleet.cluster, clock=clock, mode=alert.mode, settings=settings_of(alert))
        self._delivery = Delivery(self.ledger.database, endpoint, clock=clock) if endpoint else None
        secrets = {name: read_secrets(file) for name, file in alert.ack_secrets.items()}
        api = app(self.ledger, secrets=secrets, cluster=config.fleet.cluster, clock=clock)
        self._server = uvicorn.Server(uvicorn.Config(api, host=alert.host, port=alert.port, log_level="warning"))

    def run(self, stop: threading.Event) -> None:
        """Decide, deliver and answer until `stop` is set; the ledger is closed last."""
        threads = [
            threading.Thread(target=self.loop.run, args=(stop, self._look_s), name="alert"),
            threading.Thread(target=self._server.run, name="api"),
        ]
        if self._delivery:
            threads.append(threading.Thread(target=self._delivery.run, args=(stop,), name="deliver"))
        for thread in threads:
            thread.start()
        stop.wait()
        self._server.should_exit = True
        for thread in threads:
            thread.join()
        self.ledger.close()


def settings_of(alert: AlertSection) -> AlertSettings:
    """Turn the configuration's sections into the decision layer's knobs, name by name."""
    return AlertSettings(
        costs=CostModel(**alert.costs.model_dump()),
        limits=Limits(**alert.budget.model_dump()),
        policy=PolicySettings(**alert.policy.model_dump()),
        lifecycle=LifecycleSettings(**alert.lifecycle.model_dump()),
        max_score_age_h=alert.max_score_age_h,
    )


def _endpoint(alert: AlertSection) -> Endpoint | None:
    if alert.webhook_url is None:
        return None
    if alert.secret_file is None:
        raise ConfigError("alert.secret_file: a webhook is configured and nothing signs it: name the file with its whsec_ secret")
    return Endpoint(name=ENDPOINT, url=alert.webhook_url, secrets=read_secrets(alert.secret_file))
