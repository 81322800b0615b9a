"""I/O forwarding: when it pays, how many I/O nodes an application should use, and which job gets how many."""
