"""The thin synchronous read: filters, nomination, one scoring function, explain."""
