"""Helpers for tests on a cluster."""
