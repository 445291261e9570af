"""Who may occupy what: target keys, lowering and occupancy. The gate and its sidecar arrive with the work graph."""
