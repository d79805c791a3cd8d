"""Speed, as ratios against a bare baseline in the same run."""
