"""The errors of memline, for `from memline.errors import …`; the tree stands in `memline.contracts.errors`."""

from memline.contracts.errors import *  # noqa: F403
from memline.contracts.errors import __all__  # noqa: F401
