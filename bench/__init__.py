"""Benches: figures of speed and of retrieval, on data that the user names. Nothing here is asserted; the figures are printed."""
