"""Size against decoding speed: one dot per tool and effort, one panel per set and one for all of them, and in each the line
beyond which nobody is both smaller and faster.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from harness.weights import WIDTHS

#: A tool's name for people and its colour.
TOOLS = {
    "z4ai_here": ("z4ai", "#d9480f"),
    "z4ai_0_2": ("z4ai 0.2", "#1864ab"),
    "zipnn": ("ZipNN", "#2b8a3e"),
    "zstd": ("zstd", "#868e96"),
}
MARKERS = {"fast": ">", "default": "o", "max": "s", "chunked": "D", "3": "v", "19": "^"}
COLUMNS = 3
FARTHEST = "zstd"
#: Where the largest of the others is less than this much above the smallest, the panel ends a little above it.
NEAR = 1.15
HEADROOM = 1.02
#: From one dot beyond the edge to the next.
BELOW = 0.006
BY_TENSOR = ", by tensor"


@dataclass(frozen=True)
class Dot:
    """What a tool makes of a set at one effort."""

    tool: str
    effort: str
    #: Compressed bytes per byte.
    size: float
    #: Decoded bytes per second.
    speed: float


def dots_of(outcomes: Iterable[dict]) -> list[Dot]:
    """The dots of a record's outcomes for one set: tensor by tensor, as inside files, or as one buffer where that is all there is."""
    found: dict[tuple[str, str], Dot] = {}
    for outcome in sorted(outcomes, key=lambda outcome: outcome["label"].endswith(BY_TENSOR)):
        seconds = outcome["best"].get("decompress")
        if outcome["peer"] in TOOLS and seconds and not outcome["error"]:
            key = outcome["peer"], outcome["label"].removesuffix(BY_TENSOR)
            facts = outcome["facts"]
            found[key] = Dot(*key, facts["compressed_bytes"] / facts["bytes"], facts["bytes"] / seconds)
    return list(found.values())


def mean_of(sets: list[list[Dot]]) -> list[Dot]:
    """Geometric means over the sets, of who took part in all of them."""
    groups: dict[tuple[str, str], list[Dot]] = {}
    for dot in (dot for dots in sets for dot in dots):
        groups.setdefault((dot.tool, dot.effort), []).append(dot)

    def mean(values: Iterable[float]) -> float:
        logarithms = [math.log(value) for value in values]
        return math.exp(sum(logarithms) / len(logarithms))

    return [
        Dot(*key, mean(dot.size for dot in dots), mean(dot.speed for dot in dots))
        for key, dots in groups.items()
        if len(dots) == len(sets)
    ]


def frontier_of(dots: list[Dot]) -> list[Dot]:
    """Those that no other dot is both smaller and faster than, from the fastest to the smallest."""
    best: list[Dot] = []
    for dot in sorted(dots, key=lambda dot: (-dot.speed, dot.size)):
        if not best or dot.size < best[-1].size:
            best.append(dot)
    return best


def draw(record: dict, path: Path) -> Path | None:
    """The chart of a record of the codec, or `None` where no speeds were measured."""
    panels = {name: dots_of(outcomes) for name, outcomes in record["outcomes"].items()}
    panels = {name: dots for name, dots in panels.items() if dots}
    if not panels:
        return None
    import matplotlib

    matplotlib.use("svg")
    # The same record gives the same file, byte for byte.
    matplotlib.rcParams["svg.hashsalt"] = "ztensor"
    from matplotlib import pyplot

    shown = {"mean of all sets": mean_of(list(panels.values())), **panels} if len(panels) > 1 else panels
    rows = math.ceil(len(shown) / COLUMNS)
    figure, grid = pyplot.subplots(
        rows, COLUMNS, figsize=(3.6 * COLUMNS, 2.9 * rows + 0.8), layout="constrained", squeeze=False
    )
    # The same speeds at the same place in every panel.
    speeds = [dot.speed / 1e6 for dots in shown.values() for dot in dots]
    for axes, (name, dots) in zip(grid.flat, shown.items(), strict=False):
        _panel(axes, name, dots)
        axes.set_xlim(min(speeds) / 1.6, max(speeds) * 2.2)
    for axes in list(grid.flat)[len(shown) :]:
        axes.set_axis_off()
    figure.supxlabel("decoding, MB/s (further right is faster)")
    figure.supylabel("size (further down is smaller)")
    _legend(figure, {(dot.tool, dot.effort) for dots in shown.values() for dot in dots})
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
    return path


def _panel(axes, name: str, dots: list[Dot]) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    width = WIDTHS.get(name.rpartition(".")[2])
    # A mean over types of several widths has no bits per element.
    scale, unit = (8 * width, "bits per element") if width else (100, "% of the original")
    edge = frontier_of(dots)
    axes.step(
        [dot.speed / 1e6 for dot in edge],
        [dot.size * scale for dot in edge],
        where="post",
        color="#d0bfff",
        linewidth=5,
        zorder=1,
        solid_capstyle="round",
    )
    # On dense weights zstd is far above all others and would press them together: there it stands at the edge, with its
    # size beside it. Where others are, the axis is logarithmic.
    others = [dot.size for dot in dots if dot.tool != FARTHEST]
    near = bool(others) and max(others) < NEAR * min(others)
    top = HEADROOM * max(others) if near else math.inf
    if not near:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=_steps([dot.size for dot in dots])))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
    beyond = sorted((dot for dot in dots if dot.size > top), key=lambda dot: dot.size)
    for dot in dots:
        _, color = TOOLS[dot.tool]
        marker = MARKERS.get(dot.effort, "o")
        # Those beyond the edge stand one below the other, so that their sizes can be read.
        place = top * (1 - BELOW * beyond[::-1].index(dot)) if dot in beyond else dot.size
        speed, size = dot.speed / 1e6, place * scale
        axes.plot(speed, size, marker, color=color, markersize=8, markeredgecolor="white", zorder=3)
        if dot.size > top:
            axes.annotate(
                f" {dot.size * scale:.2f} ↑", (speed, size), color=color, fontsize="small", va="center", clip_on=False
            )
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 3), numticks=20))
    axes.xaxis.set_major_formatter(
        FuncFormatter(lambda value, _: f"{value:g}" if value < 1000 else f"{value / 1000:g}k")
    )
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.margins(0.12)
    axes.set_title(f"{name}, {unit}", fontsize="medium", weight="bold" if width is None else "normal")
    axes.grid(alpha=0.25)
    axes.tick_params(labelsize="small")


def _steps(sizes: list[float]) -> tuple[float, ...]:
    """Where a logarithmic axis over these has ticks: the shorter it is, the more of them."""
    if max(sizes) < 2.5 * min(sizes):
        return (1, 1.2, 1.4, 1.6, 1.8, 2, 2.5, 3, 3.5, 4, 4.5, 5, 5.5, 6, 6.5, 7, 7.5, 8, 9)
    return (1, 1.5, 2, 3, 4, 5, 6, 8)


def _legend(figure, present: set[tuple[str, str]]) -> None:
    from matplotlib.lines import Line2D

    handles = []
    for tool, (text, color) in TOOLS.items():
        for effort, marker in MARKERS.items():
            if (tool, effort) in present:
                style = {"color": color, "marker": marker, "linestyle": "", "markersize": 8, "markeredgecolor": "white"}
                handles.append(Line2D([], [], label=f"{text} {effort}", **style))
    handles.append(Line2D([], [], color="#d0bfff", linewidth=5, label="nobody is smaller and faster"))
    figure.legend(handles=handles, loc="outside upper center", ncols=6, frameon=False, fontsize="small")
