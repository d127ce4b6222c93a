"""The real data that benchmarks read, found through the environment variable IRONRULE_DATA."""

from __future__ import annotations

import os
from pathlib import Path

import pandas as pd


def folder() -> Path:
    """The data folder; ends the program with a clear message if it is not named or not there."""
    named = os.environ.get("IRONRULE_DATA")
    if not named:
        raise SystemExit("IRONRULE_DATA must name the folder with credit/, adult/, fico/ and sba/, but it is not set")
    if not Path(named).is_dir():
        raise SystemExit(f"IRONRULE_DATA must name a folder, but {named!r} is none")
    return Path(named)


def credit() -> tuple[pd.DataFrame, pd.Series]:
    """The Credit data and its target, 1 = no default = desired."""
    table = pd.read_csv(folder() / "credit" / "credit.csv.gz")
    return table.drop(columns="NoDefaultNextMonth"), table["NoDefaultNextMonth"]


def adult() -> tuple[pd.DataFrame, pd.Series]:
    """The Adult data, raw categories, and its target, 1 = income above 50K = desired."""
    table = pd.read_csv(folder() / "adult" / "adult.csv.gz")
    target = (table["income"] == ">50K").astype(int)
    return table.drop(columns=["income", "fnlwgt", "education"]), target


def adult_one_hot() -> tuple[pd.DataFrame, pd.Series]:
    """The Adult data in the paper's one-hot coding, and its target, 1 = income above 50K."""
    table = pd.read_csv(folder() / "adult" / "adult_onehot.csv.gz", index_col=0)
    return table.drop(columns="Label"), table["Label"]


def heloc() -> tuple[pd.DataFrame, pd.Series]:
    """FICO's HELOC data and its target, 1 = Good = desired."""
    table = pd.read_csv(folder() / "fico" / "heloc.csv.gz")
    return table.drop(columns="RiskPerformance"), (table["RiskPerformance"] == "Good").astype(int)


def sba() -> tuple[pd.DataFrame, pd.Series]:
    """The SBA loans without Term, which nearly reveals the outcome, and their target, 1 = paid in full = desired."""
    table = pd.read_parquet(folder() / "sba" / "sba.parquet").drop(columns="Term")
    return table.drop(columns="paid_in_full"), table["paid_in_full"]
