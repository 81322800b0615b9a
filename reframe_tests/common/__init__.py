"""What the tests of the suite share."""
