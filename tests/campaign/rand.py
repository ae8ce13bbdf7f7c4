"""trnrand."""
