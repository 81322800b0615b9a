"""The job of a test: its launches, how each is started, how long it may take, and how it ends."""
