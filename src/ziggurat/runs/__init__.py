"""Runs: how a run is opened, recorded, continued, replayed and forked."""
