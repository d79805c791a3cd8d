"""Subscribers of the observations: metrics, traces and logs."""
