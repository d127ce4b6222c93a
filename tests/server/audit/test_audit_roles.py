"""A server with a PostgreSQL role that may only insert and select, as the documentation sets it up."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from audit_examples import build_entry, execute, find_flaw, write_log
from server_examples import DENIED, build_demo
from sqlalchemy.exc import DBAPIError

from ironrule.cli import main
from ironrule.errors import InputError
from ironrule.server.app import create_app
from ironrule.server.audit.log import AuditLog
from ironrule.server.service import ExplainRequest, Service
from ironrule.server.settings import ServerSettings
from waiting import PATIENCE

PAGE = Path(__file__).parents[3] / "docs" / "server.md"


@pytest.fixture
def roles(postgresql: str, capsys: pytest.CaptureFixture[str]) -> Iterator[dict[str, str]]:
    """The URLs of the owner and the writer, after the statements and the command of the documentation."""
    before, after = re.findall(r"```sql\n(.*?)```", PAGE.read_text(), re.DOTALL)
    urls = {name: postgresql.replace("tester", f"audit_{name}") for name in ("owner", "writer")}
    execute(postgresql, *before.strip().splitlines())
    assert main(["audit", "create", "--audit", urls["owner"]]) == 0
    assert "GRANT SELECT, INSERT ON ironrule_audit TO" in capsys.readouterr().out
    execute(urls["owner"], *after.strip().splitlines())
    yield urls
    execute(postgresql, *(f"DROP OWNED BY audit_{name} CASCADE" for name in urls))
    execute(postgresql, *(f"DROP ROLE audit_{name}" for name in urls))


def test_a_server_works_with_a_role_that_may_only_append(roles: dict[str, str]) -> None:
    app = create_app(build_demo(), ServerSettings(audit=roles["writer"]))
    service: Service = app.state.service
    try:
        jobs = [service.start_explanation(ExplainRequest(row=DENIED), "ann") for _ in range(2)]
        assert sorted(job.future.result(PATIENCE) or job.result for job in jobs) == [1, 2]
        record = service.audit.read(2)
        assert record is not None
        assert record.row == DENIED
    finally:
        service.close()
    assert find_flaw(roles["writer"]) is None
    assert main(["audit", "verify", "--audit", roles["writer"]]) == 0


REFUSED = (
    "UPDATE ironrule_audit SET rule = 'forged'",
    "DELETE FROM ironrule_audit",
    "TRUNCATE ironrule_audit",
    "DROP TABLE ironrule_audit",
    "DROP TRIGGER ironrule_audit_rows ON ironrule_audit",
    "ALTER TABLE ironrule_audit DISABLE TRIGGER ALL",
    "ALTER TABLE ironrule_audit DISABLE TRIGGER ironrule_audit_insert",
    "ALTER TABLE ironrule_audit OWNER TO audit_writer",
    "ALTER TABLE ironrule_audit RENAME TO other",
    "CREATE TRIGGER mine AFTER INSERT ON ironrule_audit FOR EACH ROW EXECUTE FUNCTION ironrule_audit_refuse()",
    "CREATE RULE mine AS ON INSERT TO ironrule_audit DO INSTEAD NOTHING",
    "DROP FUNCTION ironrule_audit_append() CASCADE",
    "CREATE OR REPLACE FUNCTION ironrule_audit_append() RETURNS trigger LANGUAGE sql AS ''",
    "SET session_replication_role = replica",
    "CREATE TABLE other (number bigint)",
    "INSERT INTO ironrule_audit SELECT * FROM ironrule_audit ON CONFLICT (number) DO UPDATE SET rule = 'forged'",
    "SET ROLE audit_owner",
    "SELECT 1 FROM ironrule_audit FOR UPDATE",
)


@pytest.mark.parametrize("statement", REFUSED)
def test_the_role_can_do_nothing_else(roles: dict[str, str], statement: str) -> None:
    write_log(roles["writer"], 2)
    with pytest.raises(DBAPIError, match=r"permission denied|must be owner"):
        execute(roles["writer"], statement)
    assert find_flaw(roles["owner"]) is None


def test_the_triggers_hold_for_the_role_and_for_the_owner(roles: dict[str, str]) -> None:
    write_log(roles["writer"], 2)
    for url in roles.values():
        with pytest.raises(DBAPIError, match="the audit log is append-only"):
            execute(url, "INSERT INTO ironrule_audit SELECT * FROM ironrule_audit WHERE number = 2")
    with pytest.raises(DBAPIError, match="the audit log is append-only"):
        execute(roles["owner"], "UPDATE ironrule_audit SET rule = 'forged'")


def test_two_servers_with_that_role_make_one_chain(roles: dict[str, str]) -> None:
    logs = [AuditLog(roles["writer"]), AuditLog(roles["writer"])]
    numbers = [log.append(build_entry()).number for _ in range(3) for log in logs]
    assert numbers == [1, 2, 3, 4, 5, 6]
    for log in logs:
        log.close()
    assert find_flaw(roles["writer"]) is None


def test_without_a_table_the_role_is_told_who_creates_it(roles: dict[str, str]) -> None:
    execute(roles["owner"], "DROP TABLE ironrule_audit")
    with pytest.raises(InputError, match=r"permission denied .*; create it as its owner with ironrule audit"):
        AuditLog(roles["writer"])


def test_without_the_grants_the_role_is_told_which(roles: dict[str, str]) -> None:
    execute(roles["owner"], "REVOKE SELECT ON ironrule_audit FROM audit_writer")
    with pytest.raises(InputError, match=r"permission denied .* grant this role SELECT and INSERT on it"):
        AuditLog(roles["writer"])


def test_a_log_can_be_created_twice(roles: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    write_log(roles["writer"], 2)
    assert main(["audit", "create", "--audit", roles["owner"]]) == 0
    assert "already has an audit log" in capsys.readouterr().out
    with contextlib.closing(AuditLog(roles["writer"])) as log:
        assert log.verify().count == 2
