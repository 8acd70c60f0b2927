"""The write policy: what may be stored at all. It runs where a text enters, before spool, Redis, ledger, model or embedder have it.

A text is looked through for kinds of secrets (`contracts.policy.Kind`); for each namespace and kind it is kept, masked or refused. Hits
are counted by kind; what was found is told to nobody.
"""

from memline.producer.policy.apply import Hits, Screen
from memline.producer.policy.rules import WritePolicy, read_policy

__all__ = ["Hits", "Screen", "WritePolicy", "read_policy"]
