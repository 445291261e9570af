"""The work graph in SQLite: items, edges, claims, attention, members (contract workgraph)."""
