"""Launchers, one module per kind, found by their name; `reconcile/protocols.py` says how to add one."""
