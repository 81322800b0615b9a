"""The tests of both folders import what they share: pytest puts this folder on the path."""
