"""How much of a test is run, and whether this machine can do that much."""
