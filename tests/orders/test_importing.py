"""`./run import`: what is adopted, what is refused and why, and that a second run changes nothing."""

from __future__ import annotations

import csv
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from orders import models
from orders.protocol.vocabulary import State

SAMPLES = Path(__file__).parents[1] / "samples"
HEAD = "number,status,currency,amount,placed_at,approved_at,payment,email"
GOOD = "A-1,placed,EUR,12900,2024-03-02T10:00:00Z,,,b@example.org"


@pytest.fixture
def run(capsys):
    """Runs the command; answers (exit code, stdout, stderr with the command's last words)."""

    def importing(*words: object) -> tuple[int, str, str]:
        code, last = 0, ""
        try:
            call_command("import_orders", *map(str, words))
        except CommandError as error:
            code, last = error.returncode, str(error)
        except SystemExit as error:
            code = int(error.code or 0)
        said = capsys.readouterr()
        return code, said.out, said.err + last

    return importing


@pytest.fixture
def file(tmp_path):
    """Writes an export; text is written as UTF-8, bytes as they are."""

    def write(content: str | bytes, name: str = "export.csv", mapping: str = "") -> Path:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        if mapping:
            path.with_suffix(".toml").write_text(mapping)
        return path

    return write


@pytest.fixture
def refused(run, file):
    """The reason why one row (after a good one) is refused; the good one is taken in."""

    def reason(row: str, head: str = HEAD, good: str = GOOD) -> str:
        code, _, said = run(file(f"{head}\n{good}\n{row}\n"))
        assert code == 1, said
        assert list(models.Order.objects.values_list("number", flat=True)) == ["A-1"]
        line = next(line for line in said.splitlines() if line.startswith("line 3: "))
        return line.removeprefix("line 3: ")

    return reason


@pytest.mark.django_db
class TestTheSample:
    def test_every_status_is_adopted_with_its_money_and_its_times(self, run):
        code, said, _ = run(SAMPLES / "orders.csv")
        assert (code, "adopted  500" in said, "refused  0" in said) == (0, True, True)
        assert models.Order.objects.count() == 500
        assert set(models.Order.objects.values_list("state", flat=True)) == set(State)
        assert set(models.Order.objects.values_list("channel", flat=True)) == {"web", "app", "marketplace"}
        order = models.Order.objects.get(number="W-7003")
        row = next(csv.DictReader((SAMPLES / "orders.csv").read_text().splitlines(), delimiter=";"))
        capture = order.captures.get()
        assert (capture.ref, capture.amount, capture.currency) == (row["Charge"], order.total, row["Currency"])
        assert order.attempts.get().ref == row["Payment"]
        assert order.buyer.name == row["Customer"]
        assert order.placed_at.isoformat() == "2024-01-05T08:35:00+00:00"  # 09:35 in Berlin
        assert order.history.get().payload["evidence"] == {"file": "orders.csv", "line": 2, "status": row["Status"]}

    def test_a_second_run_changes_nothing(self, run):
        run(SAMPLES / "orders.csv")
        code, said, _ = run(SAMPLES / "orders.csv")
        assert (code, "adopted  0" in said, "already there  500" in said) == (0, True, True)
        assert models.Transition.objects.count() == 500

    def test_a_dry_run_keeps_nothing(self, run):
        code, said, _ = run(SAMPLES / "orders.csv", "--dry-run")
        assert (code, "would be adopted  500" in said) == (0, True)
        assert not models.Order.objects.exists()

    def test_json_lines_with_nested_objects(self, run):
        code, said, _ = run(SAMPLES / "nested.jsonl")
        assert (code, "adopted  4" in said) == (0, True)
        yen = models.Order.objects.get(number="5002")
        assert (yen.total, yen.currency, yen.channel, yen.state) == (48000, "JPY", "app", "fulfillment_pending")
        assert (yen.buyer.reference, yen.buyer.name) == ("82", "高橋 結衣")
        assert yen.entered_state_at == datetime(2024, 3, 2, 2, 4, 10, tzinfo=UTC)
        refund = models.Order.objects.get(number="5004").refunds.get(provider_ref="re_5004")
        assert (refund.amount, refund.state) == (4000, "processing")


@pytest.mark.django_db
class TestRowsThatAreRefused:
    @pytest.mark.parametrize(
        ("row", "reason"),
        [
            (",placed,EUR,1,2024-03-02T10:00:00Z,,,", "number: is empty"),
            ("A-2,packed,EUR,1,2024-03-02T10:00:00Z,,,", "status: 'packed' is not in the mapping's [status]"),
            ("A-2,placed,EURO,1,2024-03-02T10:00:00Z,,,", "currency: 'EURO' is not an ISO 4217 code"),
            ("A-2,placed,EUR,1.50,2024-03-02T10:00:00Z,,,", "amount: '1.50' has 2 digits after the point"),
            ("A-2,placed,EUR,-1,2024-03-02T10:00:00Z,,,", "amount: expected an amount from 0 in minor units"),
            ("A-2,placed,EUR,,2024-03-02T10:00:00Z,,,", "amount: expected an amount"),
            ("A-2,placed,EUR,1e3,2024-03-02T10:00:00Z,,,", "amount: expected an amount"),
            ("A-2,placed,EUR,٣,2024-03-02T10:00:00Z,,,", "amount: expected an amount"),
            (f"A-2,placed,EUR,{'9' * 60},2024-03-02T10:00:00Z,,,", "is too large"),
            ("A-2,placed,EUR,1,yesterday,,,", "placed_at: expected a time in ISO 8601, got 'yesterday'"),
            ("A-2,placed,EUR,1,2024-03-02T10:00:00,,,", "names no time zone"),
            ("A-2,placed,EUR,1,0001-01-01T00:00:00+14:00,,,", "expected a time"),
            ("A-2,placed,EUR,1,1970-01-01T00:00:00Z,,,", "is no time of an order"),
            ("A-2,placed,EUR,1,9998-01-01T00:00:00Z,,,", "lies in the future"),
            ("A-2,placed,EUR,1,,,,", "placed_at: no time tells since when the order is placed"),
            ("A-2,placed,EUR,1,2024-03-02T10:00:00Z,2024-03-02T10:01:00Z,p,", "approved_at: there is such a time"),
            ("A-2,shipped,EUR,1,2024-03-02T10:00:00Z,2024-03-02T09:00:00Z,p,", "before the order was placed"),
            ("A-2,fulfillment_pending,EUR,1,2024-03-02T10:00:00Z,2024-03-02T10:01:00Z,,", "payment: fulfillment_pend"),
            ("A-2,placed,EUR,1,2024-03-02T10:00:00Z,,,nobody", "email: expected an e-mail address"),
            ("A-2,draft,EUR,1,2024-03-02T10:00:00Z,,p,", "a draft has no attempts"),
            ("A-2,payment_pending,EUR,1,2024-03-02T10:00:00Z,,,", ""),
            ("A-2,placed,EUR", "has 3 fields, the header has 8"),
            (f"{'A' * 201},placed,EUR,1,2024-03-02T10:00:00Z,,,", "number: has 201 characters"),
            ("A-\x07,placed,EUR,1,2024-03-02T10:00:00Z,,,", "number: expected 1 to 100 printable characters"),
            ("A-1,placed,EUR,500,2024-03-02T10:00:00Z,,,", "is here already with another amount: 12900 EUR"),
        ],
    )
    def test_with_line_and_reason(self, refused, run, file, row, reason):
        if not reason:  # a payment without a reference is one we named ourselves: nothing is wrong with it
            assert run(file(f"{HEAD}\n{row}\n"))[0] == 0
            return
        assert reason in refused(row)

    def test_cancelled_with_money_held_and_no_refund(self, refused):
        said = refused("A-2,cancelled,EUR,900,2024-03-02T10:00:00Z,2024-03-02T10:01:00Z,p-2,")
        assert "holds 900 of the buyer's money and no refund is under way" in said

    def test_two_orders_cannot_share_a_payment(self, run, file):
        rows = [f"A-{n},shipped,EUR,900,2024-03-02T10:00:00Z,2024-03-02T10:01:00Z,p-1," for n in (1, 2)]
        code, _, said = run(file("\n".join([HEAD, *rows])))
        assert code == 1
        assert "line 3: order A-2: a reference of this order is already used by another one" in said
        assert models.Order.objects.count() == 1

    def test_the_line_of_a_row_with_line_ends_inside(self, run, file):
        head = "number,status,currency,amount,placed_at,address"
        good = 'A-1,placed,EUR,1,2024-03-02T10:00:00Z,"Way 1\r\nTown"'
        code, _, said = run(file(f"{head}\r\n{good}\r\n\r\nA-2,lost,EUR,1,2024-03-02T10:00:00Z,\r\n"))
        assert code == 1
        assert "line 5: order A-2: status: 'lost'" in said
        assert models.BuyerDetails.objects.get().address == "Way 1\r\nTown"

    def test_the_report_names_them_and_is_safe_to_open(self, run, file, tmp_path):
        report = tmp_path / "refused.csv"
        code, said, _ = run(file(f"{HEAD}\n{GOOD}\n=1+1,lost,EUR,1,,,,\n"), "--report", report)
        assert (code, "adopted  1" in said, "refused  1" in said) == (1, True, True)
        rows = list(csv.reader(report.read_text().splitlines()))
        assert rows[0] == ["line", "number", "column", "reason"]
        assert rows[1] == ["3", "'=1+1", "status", "'lost' is not in the mapping's [status]"]

    def test_a_refused_row_does_not_take_its_batch_with_it(self, run, file):
        rows = [f"B-{n},{'lost' if n == 5 else 'placed'},EUR,1,2024-03-02T10:00:00Z,,," for n in range(20)]
        code, said, _ = run(file("\n".join([HEAD, *rows])), "--batch", 7)
        assert (code, "adopted  19" in said) == (1, True)

    @pytest.mark.parametrize(
        ("line", "reason"),
        [
            ("{", "not JSON"),
            ("[1]", "expected a JSON object"),
            ("[" * 100_000, "not JSON"),
            ('{"number": "A-2", "amount": NaN}', "NaN is no number"),
            ('{"number": "A-2", "status": "placed", "currency": "EUR", "amount": 12.5}', "digits after the point"),
            ('{"number": "A-2", "status": "placed", "currency": "EUR", "amount": true}', "amount: expected an amount"),
            ('{"number": "A-2", "status": ["placed"], "currency": "EUR", "amount": 1}', "status: expected a text"),
            ('{"number": "A-\\ud800", "status": "placed", "currency": "EUR", "amount": 1}', "cannot be stored"),
            ('{"number": "A\\u0000", "status": "placed", "currency": "EUR", "amount": 1}', "cannot be stored"),
        ],
    )
    def test_json_rows(self, run, file, line, reason):
        good = json.dumps(dict(zip(HEAD.split(","), GOOD.split(","), strict=True)))
        code, _, said = run(file(f"{good}\n{line}\n", "export.jsonl"))
        assert code == 1
        assert "line 2: " in said and reason in said
        assert models.Order.objects.count() == 1


DECIMAL = """
[columns]
number = "number"
status = "status"
currency = "currency"
amount = "amount"
placed_at = "placed_at"
[status]
open = "placed"
[amount]
unit = "decimal"
decimal_mark = ","
thousands_mark = "."
"""


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("currency", "written", "minor"),
    [
        ("EUR", "12,90", 1290),
        ("EUR", "1.284,5", 128450),
        ("EUR", "7", 700),
        ("JPY", "48.000", 48000),
        ("JPY", "48000,00", 48000),
        ("KWD", "1,234", 1234),
        ("EUR", "1,234", None),
        ("EUR", "1,000", None),  # a thousand, or one? nothing is guessed
        ("JPY", "1,5", None),
        ("EUR", ",5", None),
        ("EUR", "1,", None),
        ("EUR", "1 000", None),
    ],
)
def test_decimal_amounts_are_exact_or_refused(run, file, currency, written, minor):
    text = f'number,status,currency,amount,placed_at\nA-1,open,{currency},"{written}",2024-03-02T10:00:00Z\n'
    code, _, said = run(file(text, mapping=DECIMAL))
    assert code == (1 if minor is None else 0), said
    assert [order.total for order in models.Order.objects.all()] == ([] if minor is None else [minor])


@pytest.mark.django_db
class TestFilesThatAreRefused:
    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            ("", "is empty"),
            (f"{HEAD}\n", "holds no orders"),
            ("number,status\nA-1,placed\n", "line 1 lacks the columns currency, amount; there are number, status"),
            (f"{HEAD},number\n{GOOD},A\n", "names 'number' twice"),
            (f"{HEAD}\n{GOOD}\n".encode("utf-16"), "looks like UTF-16"),
            (f"{HEAD}\n{GOOD}\nA-2,Müller".encode("latin-1"), "not utf-8 (byte 0xfc)"),
            (f"{HEAD}\n{GOOD}\nA-2,\0\n", "line 3 holds a NUL character"),
            (f'{HEAD}\n{GOOD}\nA-2,"never closed\n', "a quotation mark that is never closed"),
            (f'{HEAD}\n{GOOD}\nA-2,"{"x" * 200_000}"\n', "a field of more than 131072 characters"),
            (f"{HEAD}\n{GOOD}\n{'x' * 600_000}\n", "line 3 has more than 524288 characters"),
            (f'{HEAD}\n{GOOD}\nA-2,"a"b,\n', "not CSV"),
        ],
    )
    def test_before_anything_is_taken_in(self, run, file, content, reason):
        code, _, said = run(file(content))
        assert (code, reason in said, "nothing was imported" in said) == (2, True, True), said
        assert not models.Order.objects.exists()

    def test_names(self, run, file, tmp_path):
        assert "no such file" in run(tmp_path / "absent.csv")[2]
        assert "is not a file" in run(_folder(tmp_path / "folder.csv"))[2]
        code, _, said = run(file("x", "orders.xlsx"))
        assert (code, "expected a file named" in said) == (2, True)

    @pytest.mark.parametrize("batch", ["0", "x", "5001"])
    def test_batch(self, file, batch):
        with pytest.raises(CommandError, match="batch"):
            call_command("import_orders", str(file(f"{HEAD}\n{GOOD}\n")), "--batch", batch)

    def test_a_mark_and_foreign_line_ends_are_fine(self, run, file):
        code, said, _ = run(file(f"\ufeff{HEAD}\r\n{GOOD}\r\n"))
        assert (code, "adopted  1" in said) == (0, True)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("mapping", "reason"),
    [
        ("columns = 1", "columns: expected a table"),
        ("[columns", "not TOML"),
        ("[columns]\nnumber = 'n'", "status, currency, amount must be named"),
        (DECIMAL.replace("placed_at =", "placed ="), "unknown key columns.placed; known here are"),
        (DECIMAL.replace('open = "placed"', 'open = "packed"'), "status.open: 'packed' is not a state of ours"),
        (DECIMAL.replace('open = "placed"', ""), "expected a table [status]"),
        (DECIMAL.replace('"decimal"', '"cents"'), 'amount.unit: expected "minor" or "decimal"'),
        (DECIMAL.replace('decimal_mark = ","', 'decimal_mark = "."'), "two different signs"),
        (f'{DECIMAL}[time]\nzone = "Mars/Olympus"', "time.zone: 'Mars/Olympus' is no time zone"),
        (f'{DECIMAL}[time]\nformat = "%H:%M"', "names no day"),
        (f'{DECIMAL}[time]\nformat = "%Q"', "time.format"),
        (f'encoding = "klingon"\n{DECIMAL}', "encoding: 'klingon' is not known"),
        (f'delimiter = ";;"\n{DECIMAL}', "delimiter"),
        (f'provider = "acme"\n{DECIMAL}', "provider: 'acme' is not set up here; known are sandbox"),
        (f"price = 1\n{DECIMAL}", "unknown key price"),
    ],
)
def test_a_mapping_that_cannot_be_used(run, file, mapping, reason):
    code, _, said = run(file(f"{HEAD}\n{GOOD}\n", mapping=mapping))
    assert (code, reason in said, "export.toml" in said) == (2, True, True), said
    assert not models.Order.objects.exists()


@pytest.mark.django_db
def test_a_mapping_that_is_named(run, file, tmp_path):
    elsewhere = tmp_path / "shop.toml"
    elsewhere.write_text(f'encoding = "latin-1"\n{DECIMAL}')
    head = "number,status,currency,amount,placed_at"
    path = file(f"{head}\nÄ-1,open,EUR,12,2024-03-02T10:00:00Z\n".encode("latin-1"))
    assert run(path, "--mapping", elsewhere)[0] == 0
    assert models.Order.objects.get().number == "Ä-1"
    code, _, said = run(path, "--mapping", tmp_path / "absent.toml")
    assert (code, "No such file" in said) == (2, True)


@pytest.mark.django_db
def test_memory_does_not_grow_with_the_file(file):
    import tracemalloc

    from orders.importing import Mapping, import_file

    def peak(rows: int) -> int:
        text = "\n".join([HEAD, *(f"M{rows}-{n},draft,EUR,1,,,," for n in range(rows))])
        path = file(text)
        del text
        tracemalloc.start()
        sums = import_file(path, Mapping(), batch=50, refused=lambda refusal: None)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert sums.adopted == rows
        return most

    peak(100)  # what is built once
    assert peak(1500) < peak(300) * 1.5


def _folder(path: Path) -> Path:
    path.mkdir()
    return path
