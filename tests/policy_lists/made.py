"""Secrets made when they are asked for: always the same ones, of a provider's shape, that open nothing and stand whole in no file."""

from __future__ import annotations

import base64
import hashlib
import string

__all__ = ["alnum", "b64", "card", "hexa", "join", "jwt", "lower", "pem", "upper", "url64"]


def _stream(seed: str, length: int) -> bytes:
    found = b""
    counter = 0
    while len(found) < length:
        found += hashlib.sha256(f"{seed}:{counter}".encode()).digest()
        counter += 1
    return found[:length]


def _of(alphabet: str, seed: str, length: int) -> str:
    made = "".join(alphabet[byte % len(alphabet)] for byte in _stream(seed, length))
    return made if length < 8 or any(c.isdigit() for c in made) or not any(c.isdigit() for c in alphabet) else made[:-1] + "7"


def alnum(seed: str, length: int) -> str:
    return _of(string.ascii_letters + string.digits, seed, length)


def lower(seed: str, length: int) -> str:
    return _of(string.ascii_lowercase + string.digits, seed, length)


def upper(seed: str, length: int) -> str:
    return _of("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", seed, length)


def hexa(seed: str, length: int) -> str:
    return _of("0123456789abcdef", seed, length)


def url64(seed: str, length: int) -> str:
    return _of(string.ascii_letters + string.digits + "-_", seed, length - 1) + "a"


def b64(seed: str, length: int) -> str:
    return base64.b64encode(_stream(seed, length)).decode()


def join(*parts: str) -> str:
    """The parts of a secret, put together where no scanner of files looks."""
    return "".join(parts)


def jwt(seed: str) -> str:
    header = base64.urlsafe_b64encode(b'{"alg":"HS256","typ":"JWT"}').decode().rstrip("=")
    body = base64.urlsafe_b64encode(f'{{"sub":"{seed}","iat":1516239022}}'.encode()).decode().rstrip("=")
    return f"{header}.{body}.{url64(seed, 43)}"


def pem(kind: str, seed: str, lines: int = 12, newline: str = "\n") -> str:
    rows = [b64(f"{seed}{row}", 48) for row in range(lines)]
    name = f"{kind} " if kind else ""
    return newline.join([f"-----BEGIN {name}PRIVATE KEY-----", *rows, f"-----END {name}PRIVATE KEY-----"])


def card(prefix: str, length: int, seed: str, *groups: int, sep: str = " ") -> str:
    """A number in a scheme's range with the right check digit, in *groups*."""
    digits = prefix + "".join(str(byte % 10) for byte in _stream(seed, length - len(prefix) - 1))
    total = 0
    for place, digit in enumerate(reversed(digits)):
        value = int(digit) * (2 if place % 2 == 0 else 1)
        total += value - 9 if value > 9 else value
    digits += str(-total % 10)
    if not groups:
        return digits
    parts = []
    for size in groups:
        parts.append(digits[:size])
        digits = digits[size:]
    return sep.join(parts)
