from dynamo_ext.widgets.comparison import columns


def test_every_column_is_in_a_set_and_has_a_name_of_its_own_in_a_data_frame(compared):
    assert all(titles[:2] == columns.LEAD for titles in columns.GROUPS.values())
    assert columns.GROUPS["All"] == columns.SORTS == tuple(c.title for c in columns.COLUMNS)
    nothing = compared["empty"].candidates[0]
    assert columns.BY_TITLE["Peak memory"].cell(compared["empty"], nothing) == "–"
    row = columns.data(compared["full"], compared["full"].candidates[0])
    assert len({column.key for column in columns.COLUMNS} & set(row)) == len(columns.COLUMNS)
