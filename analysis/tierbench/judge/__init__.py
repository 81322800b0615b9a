"""What the numbers mean: intervals, predictions of the device models, verdicts, comparisons, histories."""
