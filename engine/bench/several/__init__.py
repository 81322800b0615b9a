"""What nodes that share their tiers cost: instances of several nodes on one machine."""
