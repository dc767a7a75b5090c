from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from penstock.cli.cluster import profile_app
from penstock.errors import InvalidInput, MissingRequirement, NotFound
from penstock.profiles.known import bundled_registry

RUNNER = CliRunner()


def test_list_names_every_profile_and_its_layers() -> None:
    rows = json.loads(RUNNER.invoke(profile_app, ["list", "--json"]).stdout)
    layers = {row["name"]: row["layers"] for row in rows}
    assert set(layers) == {"default", "tpcds", "sql", "etl", "etl-memory", "terasort", "terasort-memory", "ml"}
    assert layers["tpcds"] == ["base", "store", "skipping", "iceberg", "sql", "tpcds"]


def test_show_says_where_each_value_comes_from_and_what_it_replaced() -> None:
    shown = json.loads(RUNNER.invoke(profile_app, ["show", "tpcds", "--json", "--executor-cores", "4"]).stdout)
    partitions = next(setting for setting in shown if setting["key"] == "spark.sql.shuffle.partitions")
    assert (partitions["value"], partitions["layer"]) == ("4", "tpcds")
    assert [(gone["layer"], gone["value"]) for gone in partitions["overridden"]] == [("base", "12")]


def test_show_in_words_has_value_reason_source_and_what_went() -> None:
    text = RUNNER.invoke(profile_app, ["show", "tpcds"]).stdout
    assert "spark.sql.shuffle.partitions = 2" in text
    assert "instead of 6 (base)" in text
    assert "source: " in text


def test_a_users_own_setting_is_tried_on_top() -> None:
    try:
        bundled_registry()
    except MissingRequirement as missing:
        pytest.skip(f"{missing.problem}; make jars writes it")
    shown = RUNNER.invoke(profile_app, ["show", "default", "--conf", "spark.sql.shuffle.partitions=9"])
    assert "spark.sql.shuffle.partitions = 9" in shown.stdout
    refused = RUNNER.invoke(profile_app, ["show", "default", "--conf", "spark.sql.shufle.partitions=9"])
    assert isinstance(refused.exception, InvalidInput)


@pytest.mark.parametrize("arguments", [["--executor-memory", "much"], ["--driver-memory", "0"], ["--conf", "novalue"]])
def test_bad_options_are_refused_in_our_words(arguments: list[str]) -> None:
    assert isinstance(RUNNER.invoke(profile_app, ["show", "default", *arguments]).exception, InvalidInput)


def test_an_unknown_profile_is_refused() -> None:
    assert isinstance(RUNNER.invoke(profile_app, ["show", "nothing"]).exception, NotFound)
