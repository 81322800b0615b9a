"""Where a test runs: what a site says of itself, its places, tiers and devices, and what it requires."""
