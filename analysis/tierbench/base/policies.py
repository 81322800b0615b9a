"""The placement policies of the engine, by their names in configurations.

The engine's own list is `engine/src/config/policies.h`; a test holds this one against it.
"""

POLICIES = (
    "max-bandwidth",
    "data-locality",
    "hot-data",
    "user-defined",
    "random",
    "round-robin",
    "minimize-io-time",
)
