"""Catalogue of observations: one frozen dataclass for each thing that metrics, traces and logs report."""
