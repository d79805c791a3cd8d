"""What people ask of the installation, read in one state of the database."""
