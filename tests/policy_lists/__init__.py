"""Secrets and harmless look-alikes, by which the write policy is measured. No secret is real, and none stands whole in a file."""
