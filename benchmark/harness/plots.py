"""Charts of records, as SVG files beside the page that shows them: bars, and for the codec its frontier."""

from __future__ import annotations

from pathlib import Path

from harness import frontier
from harness.environments import ROOT
from harness.report import Table

IMAGES = ROOT / "docs" / "images"
COLORS = {"ztensor_here": "#d9480f", "z4ai_here": "#d9480f", "hardware": "#868e96"}
OTHERS = ("#1864ab", "#339af0", "#2b8a3e", "#8ce99a", "#862e9c", "#e599f7", "#e67700", "#ffd43b")


def draw(record: dict) -> Path | None:
    """The chart of a record, or `None`. Where it has bars they are those of its first table: one group per row, one bar per column."""
    kind = record["name"].split("-")[0]
    path = IMAGES / f"benchmark-{record['name']}.svg"
    if kind == "codec":
        return frontier.draw(record, path)
    if kind not in ("read", "write", "open") and record["name"] != "store":
        return None
    table = Table(**record["tables"][0])
    if kind == "store":
        # One group of bars per tool, one bar per run: the size in percent.
        runs = list(dict.fromkeys(row[0] for row in table.rows))
        labels = list(dict.fromkeys(row[1] for row in table.rows))
        sizes = {(row[0], row[1]): _value(row[3]) for row in table.rows}
        series = {f"{run}, size %": [sizes.get((run, label)) for label in labels] for run in runs}
    elif kind in ("write", "open"):
        labels = [" ".join(row[:2]) for row in table.rows]
        series = {table.columns[2]: [_value(row[2]) for row in table.rows]}
    else:
        labels = [row[0] for row in table.rows]
        series = {name: [_value(row[i]) for row in table.rows] for i, name in enumerate(table.columns) if i > 0}
    series = {name: values for name, values in series.items() if any(value is not None for value in values)}
    if not labels or not series:
        return None
    _bars(path, table.title, labels, series, logarithmic=kind in ("read", "open"))
    return path


def _value(cell: str) -> float | None:
    return None if cell == "–" else float(cell)


def _bars(path: Path, title: str, labels: list[str], series: dict[str, list[float | None]], logarithmic: bool) -> None:
    import matplotlib

    matplotlib.use("svg")
    # The same record gives the same file, byte for byte.
    matplotlib.rcParams["svg.hashsalt"] = "ztensor"
    from matplotlib import pyplot

    thickness = 0.8 / len(series)
    height = 1.2 + 0.2 * len(labels) * max(len(series), 1.5)
    figure, axes = pyplot.subplots(figsize=(8, height), layout="constrained")
    for number, (name, values) in enumerate(series.items()):
        own = [COLORS.get(label.split()[0]) for label in labels]
        color = next((c for key, c in COLORS.items() if name.startswith(key)), OTHERS[number % len(OTHERS)])
        positions = [row + number * thickness for row in range(len(labels))]
        colors = [found or color for found in own] if len(series) == 1 else color
        axes.barh(positions, [value or 0 for value in values], thickness, label=name, color=colors)
    axes.set_yticks([row + 0.4 - thickness / 2 for row in range(len(labels))], labels)
    axes.invert_yaxis()
    axes.set_title(title)
    if logarithmic:
        axes.set_xscale("log")
    axes.grid(axis="x", alpha=0.3)
    if len(series) > 1:
        axes.legend(fontsize="small")
    else:
        axes.set_xlabel(next(iter(series)))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
