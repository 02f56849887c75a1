import dataclasses

import pytest

from dynamo_ext.records.comparison import Comparison
from dynamo_ext.records.machine import Work
from dynamo_ext.widgets.comparison import columns
from tests.widgets.comparisons import EAGER, WORK, row


def test_every_column_is_in_a_set_and_has_a_name_of_its_own_in_a_data_frame(compared):
    assert all(titles[:2] == columns.LEAD for titles in columns.GROUPS.values())
    assert columns.GROUPS["All"] == columns.SORTS == tuple(c.title for c in columns.COLUMNS)
    nothing = compared["empty"].candidates[0]
    assert columns.BY_TITLE["Peak memory"].cell(compared["empty"], nothing) == "–"
    row = columns.data(compared["full"], compared["full"].candidates[0])
    assert len({column.key for column in columns.COLUMNS} & set(row)) == len(columns.COLUMNS)


@pytest.mark.parametrize(
    ("lowered", "words", "share"),
    [
        (WORK.operations, "bf16, 100% of products", 1.0),
        (WORK.operations / 4, "bf16, 25% of products", 0.25),
        (0, "float32: none of its products ran in bf16", 0.0),
        (None, "bf16", None),
    ],
)
def test_how_much_ran_in_the_precision(
    lowered: float | None, words: str, share: float | None
) -> None:
    fast = dataclasses.replace(row("eager:bf16", 1e-3, 4.2), precision="bf16", lowered=lowered)
    record = Comparison("f", "eager", (EAGER, fast), work=WORK)
    column = columns.BY_TITLE["Precision"]
    assert [column.cell(record, each) for each in record.candidates] == ["float32", words]
    assert columns.data(record, fast)["share_of_products"] == share
    assert column.cell(dataclasses.replace(record, work=Work(0, 8)), fast) == "bf16"
