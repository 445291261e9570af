"""One module per family: each function implements one method of the contract."""
