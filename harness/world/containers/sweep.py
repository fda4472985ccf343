"""Our own reaper of containers, networks and volumes: finds them by the labels that all of ours carry.

Unlike Ryuk it works offline and after a SIGKILL. Invariant: it touches nothing without our label, and nothing whose
owner lives or runs on another machine.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from http import HTTPStatus
from typing import Any

from docker.errors import APIError, NotFound  # type: ignore[import-untyped]  # it ships no types

from harness.system.process_identity import Owner, ProcessIdentity, this_owner
from harness.world.containers.engine import Engine
from harness.world.ledger import Ledger, Reaped

PROJECT_LABEL = "floodmark.project"
RUN_LABEL = "floodmark.run"
OWNER_LABEL = "floodmark.owner"

_REMOVAL_S = 30
"""How long a removal by another process may take."""


def labels_of_run(ledger: Ledger) -> Mapping[str, str]:
    """The labels of every container and network of a run."""
    return {
        PROJECT_LABEL: "floodmark",
        RUN_LABEL: ledger.run_id,
        OWNER_LABEL: json.dumps(asdict(this_owner())),
    }


def sweep_run(engine: Engine, run_id: str) -> list[str]:
    """Remove everything of one run; returns one sentence for each thing."""
    label = f"{RUN_LABEL}={run_id}"
    removed = []
    for container in engine.client.containers.list(all=True, ignore_removed=True, filters={"label": label}):
        if not _remove_container(container):
            continue
        removed.append(f"container {container.short_id} ({container.attrs['Config']['Image']})")
    for network in _networks(engine, label):
        try:
            network.remove()
        except NotFound:
            continue
        removed.append(f"network {network.name}")
    for volume in _volumes(engine, label):
        try:
            volume.remove(force=True)
        except NotFound:
            continue
        removed.append(f"volume {volume.name}")
    return removed


def sweep_dead_owners(engine: Engine) -> list[Reaped]:
    """Remove everything with our label whose owner is dead, for runs whose ledger is gone."""
    label = f"{PROJECT_LABEL}=floodmark"
    owners = {}
    for thing in [
        *engine.client.containers.list(all=True, ignore_removed=True, filters={"label": label}),
        *_networks(engine, label),
        *_volumes(engine, label),
    ]:
        # A container has them in its configuration, a network at the top level.
        labels = thing.attrs.get("Labels") or thing.attrs.get("Config", {}).get("Labels") or {}
        owners[labels.get(RUN_LABEL, "")] = _owner(labels.get(OWNER_LABEL, ""))
    return [
        Reaped(run_id=run_id, removed=tuple(sweep_run(engine, run_id)))
        for run_id, owner in owners.items()
        if owner is not None and not owner.is_foreign() and not owner.is_alive()
    ]


def _remove_container(container: Any) -> bool:
    """Remove the container; False if another process removes it, and then returns after it is gone.

    Two of our processes that start together both find what a dead owner left.
    """
    try:
        container.remove(force=True, v=True)
    except NotFound:
        return False
    except APIError as error:
        if error.status_code != HTTPStatus.CONFLICT:
            raise
        # Another removal is under way; the network can only be removed after it.
        with suppress(NotFound):
            container.wait(condition="removed", timeout=_REMOVAL_S)
        return False
    return True


def _volumes(engine: Engine, label: str) -> list[Any]:
    return list(engine.client.volumes.list(filters={"label": label}))


def _networks(engine: Engine, label: str) -> list[Any]:
    return list(engine.client.networks.list(filters={"label": label}))


def _owner(text: str) -> Owner | None:
    try:
        found = json.loads(text)
        return Owner(
            process=ProcessIdentity(**found["process"]), boot=found["boot"], machine=found["machine"]
        )
    except (ValueError, KeyError, TypeError):
        return None
