"""Read facts and have `reconcile.report` put them into words."""
