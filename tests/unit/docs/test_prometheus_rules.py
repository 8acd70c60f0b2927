"""promtool reads the configuration and the rules, and the rules do what they are for."""

from __future__ import annotations

import subprocess
from pathlib import Path

import yaml

from tests.prometheus import ROOT, binary

OPS = ROOT / "ops" / "prometheus"


def promtool(*arguments: str | Path) -> str:
    done = subprocess.run([binary("promtool"), *map(str, arguments)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_promtool_takes_the_configuration() -> None:
    assert "SUCCESS" in promtool("check", "config", OPS / "prometheus.yml")


def test_promtool_takes_the_rules() -> None:
    assert "SUCCESS" in promtool("check", "rules", OPS / "rules" / "memline.yml")


def test_the_rules_fire_when_they_should_and_only_then() -> None:
    assert "SUCCESS" in promtool("test", "rules", OPS / "tests" / "memline_test.yml")


def test_every_alert_is_among_those_tests() -> None:
    rules = yaml.safe_load((OPS / "rules" / "memline.yml").read_text(encoding="utf-8"))
    tested = (OPS / "tests" / "memline_test.yml").read_text(encoding="utf-8")
    for group in rules["groups"]:
        for rule in group["rules"]:
            assert "alert" not in rule or f'alertname="{rule["alert"]}", severity="{rule["labels"]["severity"]}"' in tested
