"""Histories that come in chunks say what the same table in memory says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from mixed_tables import ROWS, decides, every_kind, plain_kinds

from ironrule import Explainer, Space, SqlQuery, StorageError, TableError
from ironrule.space.column_store import encode_to_disk as encoding, ingest, storage
from ironrule.space.column_store.encode_to_disk import encode_to_disk
from ironrule.space.column_store.ingest import open_source
from ironrule.space.sources import as_source, databases, files
from ironrule.space.sources.files import ArrowFiles, CsvFile


@pytest.fixture(autouse=True)
def _short_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "CHUNK_ROWS", 37)
    monkeypatch.setattr(files, "BLOCK_BYTES", 512)
    monkeypatch.setattr(databases, "CHUNK_ROWS", 37)
    monkeypatch.setattr(databases, "SQL_CHUNK_ROWS", 37)
    monkeypatch.setattr(storage, "BLOCK_ROWS", 64)
    monkeypatch.setattr(encoding, "BLOCK_ROWS", 64)


def assert_same_as_in_memory(frame: pd.DataFrame, source: Any) -> None:
    """Space, codes, outcomes and an explanation."""
    whole, streamed = Explainer(decides, frame), Explainer(decides, source)
    assert streamed.space == whole.space
    assert streamed.space.fingerprint == whole.space.fingerprint
    both = [explainer._context.history for explainer in (whole, streamed)]
    for mine, theirs in zip(both[0].codes.columns, both[1].codes.columns, strict=True):
        assert mine.dtype == theirs.dtype
        assert (mine == theirs).all()
    assert (whole.outcomes == streamed.outcomes).all()
    assert both[0].fingerprint() == both[1].fingerprint()
    denied = int(np.flatnonzero(~whole.outcomes)[-1])
    one, other = whole.explain(denied, seed=3), streamed.explain(denied, seed=3)
    assert (one.rule, one.verdict, one.coverage) == (other.rule, other.verdict, other.coverage)


def test_parquet_of_every_kind_of_column_is_read_as_pandas_reads_it(tmp_path: Path) -> None:
    every_kind().to_parquet(tmp_path / "past.parquet", row_group_size=50)
    assert_same_as_in_memory(pd.read_parquet(tmp_path / "past.parquet"), str(tmp_path / "past.parquet"))


def test_chunks_of_several_sizes_were_read(tmp_path: Path) -> None:
    every_kind().to_parquet(tmp_path / "past.parquet", row_group_size=50)
    chunks = list(ArrowFiles.from_path(tmp_path / "past.parquet").chunks(["whole"]))
    assert len(chunks) > 5
    assert sum(len(chunk) for chunk in chunks) == ROWS


def test_csv_is_read_as_pandas_reads_it(tmp_path: Path) -> None:
    for name in ("past.csv", "past.csv.gz", "past.tsv"):
        plain_kinds().to_csv(tmp_path / name, index=False, sep="\t" if "tsv" in name else ",")
        read = pd.read_csv(tmp_path / name, sep="\t" if "tsv" in name else ",", low_memory=False)
        assert read["code"].iloc[0] == "007"
        assert_same_as_in_memory(read, tmp_path / name)


def test_a_folder_of_parquet_files_is_one_history(tmp_path: Path) -> None:
    frame = every_kind()
    for place, part in enumerate((frame[:120], frame[120:250], frame[250:])):
        part.to_parquet(tmp_path / f"part-{place}.parquet")
    assert_same_as_in_memory(pd.read_parquet(tmp_path), tmp_path)
    assert_same_as_in_memory(pd.read_parquet(tmp_path), ds.dataset(tmp_path))


def test_partitions_are_columns(tmp_path: Path) -> None:
    pq.write_to_dataset(
        pa.Table.from_pandas(every_kind()[["whole", "gaps", "text"]].assign(year=2024)), tmp_path, ["year"]
    )
    pq.write_to_dataset(
        pa.Table.from_pandas(every_kind()[["whole", "gaps", "text"]].assign(year=2025)), tmp_path, ["year"]
    )
    streamed = Explainer(decides, tmp_path)
    assert streamed.space["year"].values == (2024, 2025)
    assert len(streamed.outcomes) == 2 * ROWS


def test_duckdb_relations_are_read_in_chunks() -> None:
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        connection.register("past", plain_kinds().drop(columns="gaps"))
        relation = connection.sql("select *, whole % 3 + 0.5 as gaps, cast(whole as decimal(9, 2)) as price from past")
        assert_same_as_in_memory(relation.df(), relation)


def test_the_space_of_a_source_can_be_inferred_by_itself(tmp_path: Path) -> None:
    every_kind().assign(idle=1).to_parquet(tmp_path / "past.parquet")
    frame = pd.read_parquet(tmp_path / "past.parquet")
    options = {"nominal": ["whole"], "one_hot": None}
    assert Space.infer(tmp_path / "past.parquet", **options) == Space.infer(frame, **options)
    with pytest.raises(TableError, match="at least two values, got one value, or only missing ones, in "):
        Space.infer(tmp_path / "past.parquet", constant="refuse")


def test_sql_queries_are_read_in_chunks(tmp_path: Path) -> None:
    sa = pytest.importorskip("sqlalchemy")
    address = f"sqlite:///{tmp_path / 'past.db'}"
    frame = plain_kinds().drop(columns="flag")
    engine = sa.create_engine(address)
    frame.to_sql("past", engine, index=False)
    read = pd.read_sql("select * from past order by rowid", engine)
    engine.dispose()
    assert_same_as_in_memory(read, SqlQuery(address, "select * from past order by rowid"))
    with pytest.raises(TableError, match=r"the query failed: .*nothing"):
        Explainer(decides, SqlQuery(address, "select * from nothing"))


@dataclass(frozen=True)
class TableSource:
    """A source made of tables in memory; counts how often it is read."""

    tables: list[pa.Table]
    reads: list[int]
    version: str | None = "1"
    row_count: int | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.tables[0].column_names)

    def chunks(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        self.reads.append(1)
        return (table.select(list(columns)) for table in self.tables)

    def to_pandas(self, table: pa.Table) -> pd.DataFrame:
        return table.to_pandas()

    def fingerprint(self) -> str | None:
        return self.version


def build_source(**more: Any) -> TableSource:
    table = pa.Table.from_pandas(every_kind())
    return TableSource([table.slice(0, 100), table.slice(100)], [], **more)


def test_the_second_explainer_reads_nothing_again(tmp_path: Path) -> None:
    source, asked = build_source(), []

    def counted(table: pd.DataFrame) -> np.ndarray:
        asked.append(len(table))
        return decides(table)

    for _ in range(2):
        Explainer(counted, source, cache=tmp_path)
    assert source.reads == [1]
    assert sum(asked) > 2 * ROWS  # a function has no name that says what it does, so it is asked again


def test_outcomes_of_a_model_that_can_be_read_are_used_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sklearn.tree import DecisionTreeClassifier

    from ironrule.model.blackbox import BlackBox

    source, frame = build_source(), every_kind()[["whole", "sort_a", "sort_b"]]
    tree = DecisionTreeClassifier(max_depth=3, random_state=0).fit(frame, decides(every_kind()))
    first = Explainer(tree, source, cache=tmp_path, desired=True)
    monkeypatch.setattr(BlackBox, "compute_outcomes", lambda *_: pytest.fail("asked again"))
    again = Explainer(tree, source, cache=tmp_path, desired=True)
    assert source.reads == [1]
    assert (again.outcomes == first.outcomes).all()
    assert again._context.history.fingerprint() == first._context.history.fingerprint()
    other = DecisionTreeClassifier(max_depth=1, random_state=0).fit(frame, decides(every_kind()))
    with pytest.raises(pytest.fail.Exception, match="asked again"):
        Explainer(other, source, cache=tmp_path, desired=True)


def test_data_that_changed_is_read_again(tmp_path: Path) -> None:
    path, cache = tmp_path / "past.parquet", tmp_path / "cache"
    every_kind().to_parquet(path)
    Explainer(decides, path, cache=cache)
    every_kind()[100:].to_parquet(path)
    assert len(Explainer(decides, path, cache=cache).outcomes) == 200


def test_what_an_older_version_left_in_the_cache_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, cache = tmp_path / "past.parquet", tmp_path / "cache"
    every_kind().to_parquet(path)
    monkeypatch.setattr("ironrule.space.column_store.ingest.CACHE_FORMAT", 1)
    Explainer(decides, path, cache=cache)
    monkeypatch.undo()
    (older,) = cache.iterdir()
    (older / "summary.json").rename(older / "gathered.json")
    first = Explainer(decides, path, cache=cache)
    again = Explainer(decides, path, cache=cache)
    assert (again.outcomes == first.outcomes).all()
    assert len(list(cache.iterdir())) == 2


def test_without_a_cache_nothing_stays_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import gc
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    explainer = Explainer(decides, build_source(version=None))
    assert list(tmp_path.iterdir())
    assert explainer.explain(int(np.flatnonzero(~explainer.outcomes)[0])).rule
    del explainer
    gc.collect()
    assert not list(tmp_path.iterdir())


def test_a_declared_space_and_constraints_count_as_in_memory(tmp_path: Path) -> None:
    frame = every_kind()
    frame.to_parquet(tmp_path / "past.parquet")
    frame = pd.read_parquet(tmp_path / "past.parquet")
    space = Space.infer(frame, one_hot=None, columns=["whole", "gaps", "town_a", "town_b"], domains={"whole": [9]})
    for given in (space, Space.infer(frame, columns=["whole", "gaps", "town_a", "town_b", "town_c"])):
        both = []
        for data in (frame, tmp_path / "past.parquet"):
            with pytest.warns(UserWarning, match="break the constraints"):
                both.append(Explainer(decides, data, space=given, constraints=["cf.whole <= 3"]))
        assert both[0].space == both[1].space
        assert both[0]._context.history.fingerprint() == both[1]._context.history.fingerprint()
        kept = int(both[0]._context.row_numbers[np.flatnonzero(~both[0].outcomes)[2]])
        assert both[0].explain(kept).rule == both[1].explain(kept).rule
        with pytest.raises(TableError, match=rf"from 0 to {ROWS - 1} \({ROWS} rows\), got {ROWS}"):
            both[1].explain(ROWS)


def test_values_outside_a_declared_domain_are_named(tmp_path: Path) -> None:
    frame = every_kind()
    frame.to_parquet(tmp_path / "past.parquet")
    space = Space.infer(frame[frame["whole"] < 3], columns=["whole", "gaps"])
    with pytest.raises(
        TableError, match=r"'whole' must be.*got other values in 2 rows \(3, 4\), where equal values count once"
    ):
        Explainer(decides, tmp_path / "past.parquet", space=space)


def test_batches_of_a_streamed_history_are_those_of_memory(tmp_path: Path) -> None:
    every_kind().to_parquet(tmp_path / "past.parquet")
    frame = pd.read_parquet(tmp_path / "past.parquet")
    both = [Explainer(decides, data).explain_many(range(30), workers=2) for data in (frame, tmp_path / "past.parquet")]
    assert [str(one.rule) for one in both[0]] == [str(one.rule) for one in both[1]]


def test_positions_grow_wider_when_they_must(tmp_path: Path) -> None:
    numbers = np.concatenate([np.arange(100), np.arange(300), np.arange(70_000)])
    table = pa.table({"n": numbers, "other": numbers % 2})
    pieces = [table.slice(0, 100), table.slice(100, 300), table.slice(400)]
    opened = open_source(TableSource(pieces, []), ("n", "other"), tmp_path, False)
    assert [kind for kind, _ in opened.table.segments["n"]] == ["|u1", "<u2", "<u4"]
    space = Space.infer(table.to_pandas())
    codes = encode_to_disk(opened.table, space, False)
    assert (codes.columns[0] == numbers).all()
    assert len(list(ingest.read_segments(opened.table.positions_path("n"), opened.table.segments["n"], 64))) > 1000


def test_columns_of_types_that_do_not_go_together_are_refused() -> None:
    pieces = [pa.table({"n": [1, 2], "m": [0, 1]}), pa.table({"n": ["a", "b"], "m": [0, 1]})]
    with pytest.raises(TableError, match="column 'n' must have one type, got int64 in some rows and string in others"):
        Explainer(lambda table: table["m"] == 1, TableSource(pieces, []))


def test_empty_or_absent_data_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"data file not found: '.*no.parquet'"):
        Explainer(decides, tmp_path / "no.parquet")
    pd.DataFrame({"a": []}).to_csv(tmp_path / "empty.csv", index=False)
    with pytest.raises(TableError, match="at least one row, got none"):
        Explainer(decides, tmp_path / "empty.csv")
    (tmp_path / "broken.parquet").write_text("no")
    with pytest.raises(TableError, match=r"cannot read '.*broken.parquet' as Parquet: "):
        Explainer(decides, tmp_path / "broken.parquet")
    (tmp_path / "broken.csv").write_text("a,b\n1,2\n1,2,3\n")
    with pytest.raises(TableError, match=r"broken.csv is not well formed: "):
        Explainer(decides, tmp_path / "broken.csv")


def test_a_full_disk_is_a_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ingest.DictionaryColumn, "_write", full)
    with pytest.raises(StorageError, match=r"cannot write positions to .*: No space left.*another cache"):
        Explainer(decides, build_source(), cache=tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_table_in_memory_is_no_source() -> None:
    assert as_source(every_kind()) is None
    assert as_source(pa.Table.from_pandas(every_kind())) is None
    assert as_source(np.zeros((2, 2))) is None
    assert isinstance(as_source(CsvFile(Path("x.csv"))), CsvFile)
