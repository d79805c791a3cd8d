"""Findings and their wording: pure functions from facts to what people read."""
