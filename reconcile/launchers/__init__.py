"""Ways to start work, one file each; found by discovery."""
