"""Handing a turn over: checks, numbers, the Redis stream, the local spool.

Light by design: importing this room loads the standard library and the contracts, nothing else; `redis` comes with the first
connection.
"""

from memline.producer.build import build_turn
from memline.producer.producer import Producer
from memline.producer.spool import Spool, SpoolStatus
from memline.producer.stream import Entry, TurnStream

__all__ = ["Entry", "Producer", "Spool", "SpoolStatus", "TurnStream", "build_turn"]
