"""Extractors: what finds the facts of a turn. One by a chat model, one by rules."""
