"""The reconcile loop and its passes."""
