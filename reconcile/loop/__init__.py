"""Reconcile loop: decides what is due and keeps the database in order."""
