"""Embedders: services that turn texts into vectors."""
