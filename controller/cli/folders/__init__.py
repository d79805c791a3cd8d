"""Commands that compare a folder of manifests with the server, and apply it (U-02, R-22)."""
