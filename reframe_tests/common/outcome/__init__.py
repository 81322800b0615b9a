"""What a job left: outputs, traces and bytes as numbers and verdicts, kept as the records of a run."""
