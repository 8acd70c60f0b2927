"""Rerankers: they look at a question and its candidates together, and say what answers it best."""
