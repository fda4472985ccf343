"""The levels of fidelity: what differs between them, behind the protocol of `harness.engine.level`."""
