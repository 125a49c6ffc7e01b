from xmlgp.runtime.blocks import row_blocks


def test_blocks_cover_all_rows_once() -> None:
    assert row_blocks(7, 3) == [slice(0, 3), slice(3, 6), slice(6, 7)]
    assert row_blocks(6, 3) == [slice(0, 3), slice(3, 6)]
    assert row_blocks(0, 3) == []
