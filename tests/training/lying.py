"""What a stranger's checkpoint says, changed, and what is said of it."""

import pytest

from xmlgp.errors import ModelFolderError


def refused(call, *arguments, **options):
    """Make sure that a call refuses the checkpoint as damaged."""
    with pytest.raises(
        ModelFolderError, match="checkpoint: the checkpoint is damaged; --no-resume begins anew without it$"
    ):
        call(*arguments, **options)


def change(*path, to):
    """Return what sets a value that a path of keys leads to; ... takes it out."""

    def facts(content):
        for key in path[:-1]:
            content = content[key]
        if to is ...:
            del content[path[-1]]
        else:
            content[path[-1]] = to

    return facts
