"""The durable truth: what people deployed, in revisions that nobody can change."""
