"""What the world sees: the shapes of INTERFACE.md as types, and pure renderings, shared by API and web page."""
