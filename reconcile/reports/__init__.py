"""What people ask of the installation: what was, what is, and what is not well."""
