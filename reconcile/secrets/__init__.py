"""Where secrets lie, one file each; found by discovery."""
