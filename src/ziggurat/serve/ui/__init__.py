"""Runs as the streams of user interfaces."""
