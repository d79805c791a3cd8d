"""Histories, pure: fold and diff of revisions, hash chain, signatures, checkpoints."""
