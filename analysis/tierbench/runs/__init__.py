"""What was measured here: a run folder as one table, and any other source of measurements too."""
