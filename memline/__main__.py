"""`python -m memline`: the command line."""

from __future__ import annotations

from memline.cli import main

if __name__ == "__main__":
    main()
