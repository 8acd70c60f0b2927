"""The words of memline as types: nothing here imports another room or a heavy package."""
