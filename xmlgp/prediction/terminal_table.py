"""The labels of a point as a table for people, within the width of a terminal."""

from __future__ import annotations

from typing import Any

from xmlgp.runtime.untrusted_text import fitted

__all__ = ["labels_for_people"]

#: The columns of a bar.
BAR = 10


def labels_for_people(record: dict[str, Any], output: str, width: int) -> str:
    """Return the identifier of a point and a line for each label of its record, as `LabelWriter` makes it.

    A line has the name, in at most a third of the width, the score called `output`, a probability also as a bar, its
    standard deviation and the words for the label, if they are there.
    """
    # Other formats need no tqdm.
    from tqdm.std import Bar  # type: ignore[attr-defined]  # noqa: PLC0415  # the stubs lack it
    from tqdm.utils import disp_len  # noqa: PLC0415

    names = [fitted(str(label["label"]), width // 3) for label in record["labels"]]
    longest = max(map(disp_len, names), default=0)
    lines = [str(record["id"])]
    for name, label in zip(names, record["labels"], strict=True):
        value, scale = label[output], 1
        score = f"{value:9.3g}"
        if output == "probability":
            scale = 100
            score = f"{Bar(value, BAR, Bar.UTF)} {scale * value:5.1f} %"
        if "std" in label:
            score += f" ± {scale * label['std']:4.1f}"
        words = ", ".join(str(entry["word"]) for entry in label.get("for", ()))
        lines.append(f"  {name}{' ' * (longest - disp_len(name))}  {score}  {words}".rstrip())
    return "".join(fitted(line, width) + "\n" for line in lines)
