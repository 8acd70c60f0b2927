"""The truth table of filters: rows, conditions, and the rows that each condition matches. One table for every path and backend."""

from __future__ import annotations

from typing import Any

__all__ = ["FIELDS", "MORE", "MORE_ROWS", "REFUSED", "ROWS", "TRUTH_TABLE"]

#: Memories of user `u`, by name: mem0's four (issues 3975, 3791, 6264, 6424).
ROWS: dict[str, dict[str, Any]] = {
    "r1": {"cat": "work", "prio": 5, "title": "Team Meeting"},
    "r2": {"cat": "home", "prio": 9, "title": "team lunch"},
    "r3": {"prio": 1, "archived": True},
    "r4": {"cat": "work", "prio": 7, "when": "2024-05-01"},
}

TRUTH_TABLE: list[tuple[dict[str, Any], str]] = [
    ({"cat": "work"}, "r1 r4"),
    ({"cat": {"eq": "work"}}, "r1 r4"),
    ({"cat": {"ne": "work"}}, "r2 r3"),
    ({"cat": {"nin": ["work"]}}, "r2 r3"),
    ({"cat": {"in": ["work", "home"]}}, "r1 r2 r4"),
    ({"cat": ["work", "home"]}, "r1 r2 r4"),
    ({"cat": []}, ""),
    ({"cat": {"in": []}}, ""),
    ({"cat": {"nin": []}}, "r1 r2 r3 r4"),
    ({"cat": {"exists": True}}, "r1 r2 r4"),
    ({"cat": {"exists": False}}, "r3"),
    ({"cat": None}, "r3"),
    ({"cat": {"ne": None}}, "r1 r2 r4"),
    ({"cat": {"in": [None, "home"]}}, "r2 r3"),
    ({"cat": {"eq": "work", "in": ["home"]}}, ""),
    ({"prio": {"gt": 5}}, "r2 r4"),
    ({"prio": {"gte": 5, "lte": 7}}, "r1 r4"),
    ({"prio": {"gt": 1, "ne": 5}}, "r2 r4"),
    ({"prio": {"lt": 5.5}}, "r1 r3"),
    ({"prio": 5.0}, "r1"),
    ({"prio": "5"}, ""),
    ({"archived": True}, "r3"),
    ({"archived": 1}, ""),
    ({"title": {"contains": "Team"}}, "r1"),
    ({"title": {"icontains": "Team"}}, "r1 r2"),
    ({"when": {"gte": "2024-05-01"}}, "r4"),
    ({"when": {"lt": "2024-05-01"}}, ""),
    ({"AND": [{"cat": "work"}, {"cat": "home"}]}, ""),
    ({"AND": [{"prio": {"gte": 5}}, {"prio": {"gte": 1}}]}, "r1 r2 r4"),
    ({"AND": [{"OR": [{"cat": "work"}]}, {"OR": [{"prio": 9}]}]}, ""),
    ({"OR": [{"cat": "home"}, {"prio": 1}]}, "r2 r3"),
    ({"NOT": [{"cat": "work", "prio": 5}]}, "r2 r3 r4"),
    ({"NOT": {"cat": "work", "prio": 5}}, "r2 r3 r4"),
    ({"NOT": [{"cat": "work"}, {"prio": 9}]}, "r3"),
    ({"NOT": [{"NOT": [{"cat": "work"}]}]}, "r1 r4"),
    ({"cat": "work", "NOT": [{"prio": 5}]}, "r4"),
    ({"OR": [{"AND": [{"cat": "work"}, {"prio": {"gt": 5}}]}, {"NOT": [{"cat": {"exists": True}}]}]}, "r3 r4"),
]

#: Memories of user `v`: lists, nested keys, null, times in several forms. `FIELDS` are memline's own of the same rows.
MORE_ROWS: dict[str, dict[str, Any]] = {
    "m1": {"tags": ["Red", "blue", 3], "deep": {"a": {"b": 2}}, "when": "2024-05-01T23:00:00-02:00"},
    "m2": {"tags": [], "name": "Lange Straße 3", "done": False, "when": "2024-05-01"},
    "m3": {"tags": ["green"], "name": None, "when": "soon"},
    "m4": {"price": 2.5, "count": 2},
}

#: Options of `add` for rows of `MORE_ROWS`.
FIELDS: dict[str, dict[str, Any]] = {
    "m1": {"timestamp": "2024-05-01T10:00:00Z"},
    "m2": {"timestamp": "2024-05-02T10:00:00Z", "agent_id": "bot"},
    "m3": {"timestamp": "2024-06-01T00:00:00Z", "run_id": "r1"},
    "m4": {"timestamp": "2024-06-01T00:00:00.000001Z", "expiration_date": "2999-01-01"},
}

MORE: list[tuple[dict[str, Any], str]] = [
    ({"tags": "blue"}, "m1"),
    ({"tags": 3}, "m1"),
    ({"tags": {"ne": "blue"}}, "m2 m3 m4"),
    ({"tags": {"in": ["green", 3]}}, "m1 m3"),
    ({"tags": {"nin": ["green", 3]}}, "m2 m4"),
    ({"tags": {"contains": "blue"}}, "m1"),
    ({"tags": {"contains": "blu"}}, ""),
    ({"tags": {"icontains": "BLUE"}}, "m1"),
    ({"tags": {"gt": 1}}, ""),
    ({"tags": {"exists": True}}, "m1 m2 m3"),
    ({"deep.a.b": 2}, "m1"),
    ({"deep.a.b": {"lt": 2.5}}, "m1"),
    ({"deep.a": {"exists": True}}, "m1"),
    ({"deep.a.c": {"exists": False}}, "m1 m2 m3 m4"),
    ({"name": {"icontains": "STRASSE"}}, "m2"),
    ({"name": {"contains": "STRASSE"}}, ""),
    ({"name": {"exists": False}}, "m1 m3 m4"),
    ({"name": None}, "m1 m3 m4"),
    ({"done": False}, "m2"),
    ({"done": 0}, ""),
    ({"done": {"ne": False}}, "m1 m3 m4"),
    ({"price": {"gt": 2}}, "m4"),
    ({"count": 2.0}, "m4"),
    ({"count": {"contains": "2"}}, ""),
    ({"when": "2024-05-01"}, "m2"),
    ({"when": "2024-05-02"}, "m1"),
    ({"when": "2024-05-02T01:00:00Z"}, "m1"),
    ({"when": {"lte": "2024-05-01"}}, "m2"),
    ({"when": "soon"}, "m3"),
    ({"occurred_at": "2024-05-01"}, "m1"),
    ({"occurred_at": {"gte": "2024-05-02", "lt": "2024-06-01"}}, "m2"),
    ({"occurred_at": {"gt": "2024-06-01T00:00:00Z"}}, "m4"),
    ({"occurred_at": {"gt": "2024-05-31"}}, "m3 m4"),
    ({"created_at": {"lt": "2020-01-01"}}, ""),
    ({"created_at": {"exists": True}}, "m1 m2 m3 m4"),
    ({"expiration_date": {"exists": True}}, "m4"),
    ({"expiration_date": {"gt": "2500-01-01"}}, "m4"),
    ({"expiration_date": None}, "m1 m2 m3"),
    ({"agent_id": "bot"}, "m2"),
    ({"OR": [{"agent_id": "bot"}, {"run_id": "r1"}]}, "m2 m3"),
    ({"OR": [{"agent_id": "bot", "done": True}, {"run_id": "r1", "tags": "green"}]}, "m3"),
]

#: What is refused wherever a filter is taken, with the beginning of what the error says.
REFUSED: list[tuple[Any, str]] = [
    ({"user_id": "u", "OR": []}, "filters.OR is an empty list"),
    ({"user_id": "u", "AND": []}, "filters.AND is an empty list"),
    ({"user_id": "u", "NOT": []}, "filters.NOT is an empty list"),
    ({"user_id": "u", "prio": {"above": 5}}, "filters.prio.above is no operator"),
    ({"user_id": "u", "cat": "*"}, "filters.cat is a wildcard"),
    ({"user_id": "u", "cat": {"in": "work"}}, "filters.cat.in must be a list"),
    ({"user_id": "u", "created_at": {"gt": "soon"}}, "filters.created_at.gt is no time"),
    ({"user_id": "*"}, "Invalid filters.user_id: wildcards"),
    ({"user_id": {"in": ["u", "v"]}}, "filters.user_id must be one id"),
    ({"user_id": {"ne": "u"}}, "filters.user_id must be one id"),
    ({"user_id": None}, "filters.user_id must be one id"),
    ({"user_id": "lee ann"}, "Invalid filters.user_id: cannot contain whitespace"),
    ({"agent_id": "a", "NOT": [{"user_id": "u"}]}, "filters.NOT[0].user_id stands inside NOT"),
    ({"cat": "work"}, "filters names no scope id"),
    ({"OR": [{"user_id": "u"}, {"cat": "work"}]}, "filters.OR[1] names no scope id"),
    ({}, "filters names no scope id"),
]
