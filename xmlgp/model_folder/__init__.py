"""The model folder: one versioned format that every subcommand reads or writes."""
