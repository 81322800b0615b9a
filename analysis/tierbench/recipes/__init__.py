"""What was run elsewhere: published runs with their numbers, runs that follow from rules, projections."""
