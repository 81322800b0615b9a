"""The subcommands of `tierbench`, a module a group: each adds its parsers and does what they ask."""
