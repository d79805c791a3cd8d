"""The whole history: walked, exported, imported, made again, restored."""
