"""Launchers, one module per kind, found by their name; `reconcile/plugins.py` says how to add one."""
