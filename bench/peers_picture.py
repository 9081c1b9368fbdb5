"""The timelines of the boots, as a self-contained SVG file."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from html import escape

from peers_machine import UNITS, Seen
from peers_roots import ENTRANTS

WIDTH, LEFT, RIGHT, TOP, LANE, BAR = 960, 150, 92, 92, 54, 20
FOOT = 44
INK, DIM, GRID, TRACK = "#1f2933", "#61707d", "#e3e8ec", "#dfe5ea"
OURS_COLOUR, PEER_COLOUR, READY_COLOUR, LOGIN_COLOUR, LEASE_COLOUR = (
    "#0b6bcb",
    "#b4690e",
    "#15803d",
    "#1f2933",
    "#7c3aed",
)
STYLE = f"""
text {{ font-family: system-ui, "Segoe UI", "DejaVu Sans", sans-serif; font-size: 13px; fill: {INK} }}
.dim {{ fill: {DIM}; font-size: 12px }}
.title {{ font-size: 17px; font-weight: 600 }}
.name {{ font-weight: 600; text-anchor: end }}
.tick {{ fill: {DIM}; font-size: 12px; text-anchor: middle }}
"""


def typical(boots: list[Seen]) -> Seen:
    """The round with the median login: a real boot, not an average."""
    return sorted(boots, key=lambda seen: seen.login or math.inf)[(len(boots) - 1) // 2]


def picture(boots: Mapping[str, list[Seen]], *, subtitle: str) -> str:
    shown = {name: typical(rounds) for name, rounds in boots.items() if rounds}
    longest = max(max(seen.login or 0.0, seen.ready or 0.0) for seen in shown.values())
    step = next(step for step in (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0) if longest / step <= 10)
    scale = (WIDTH - LEFT - RIGHT) / longest
    height = TOP + LANE * len(shown) + FOOT
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}">',
        f"<style>{STYLE}</style>",
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        text(24, 32, "From the first process to the first login", kind="title"),
        text(24, 52, subtitle, kind="dim"),
        *legend(24, 76),
        *grid(longest, step, scale, bottom=height - FOOT),
    ]
    for at, (name, seen) in enumerate(shown.items()):
        lines += lane(name, seen, y=TOP + LANE * at + LANE // 2, scale=scale)
    return "\n".join([*lines, "</svg>"]) + "\n"


def text(x: float, y: float, words: str, *, kind: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}"{f" class={chr(34)}{kind}{chr(34)}" if kind else ""}>{escape(words)}</text>'


def bar(x: float, y: float, width: float, colour: str, *, height: float = BAR, hint: str = "") -> str:
    title = f"<title>{escape(hint)}</title>" if hint else ""
    box = f'x="{x:.1f}" y="{y - height / 2:.1f}" width="{max(width, 1.5):.1f}" height="{height}"'
    return f'<rect {box} rx="2" fill="{colour}">{title}</rect>'


def diamond(x: float, y: float) -> str:
    points = " ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in ((0, -9), (7, 0), (0, 9), (-7, 0)))
    return f'<polygon points="{points}" fill="{READY_COLOUR}" stroke="#ffffff" stroke-width="1.5"/>'


def dot(x: float, y: float) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6.5" fill="{LOGIN_COLOUR}" stroke="#ffffff" stroke-width="1.5"/>'


def lease(x: float, y: float) -> str:
    return f'<path d="M{x:.1f} {y - 14:.1f}v28" stroke="{LEASE_COLOUR}" stroke-width="2"/>'


def legend(x: float, y: float) -> Iterator[str]:
    middle = y - 4
    yield bar(x, middle, 26, TRACK) + text(x + 33, y, "the boot", kind="dim")
    yield bar(x + 104, middle, 12, OURS_COLOUR) + bar(x + 117, middle, 12, PEER_COLOUR)
    yield text(x + 136, y, "the agent's units at work", kind="dim")
    yield lease(x + 300, middle) + text(x + 310, y, "the machine has its address", kind="dim")
    yield diamond(x + 510, middle) + text(x + 523, y, "Ready is reported", kind="dim")
    yield dot(x + 630, middle) + text(x + 643, y, "the admin logs in", kind="dim")


def grid(longest: float, step: float, scale: float, *, bottom: float) -> Iterator[str]:
    for number in range(math.floor(longest / step) + 1):
        x = LEFT + number * step * scale
        yield f'<path d="M{x:.1f} {TOP}V{bottom:.1f}" stroke="{GRID}"/>'
        yield text(x, bottom + 18, f"{number * step:g} s", kind="tick")


def lane(name: str, seen: Seen, *, y: float, scale: float) -> Iterator[str]:
    end = max(seen.login or 0.0, seen.ready or 0.0)
    yield text(LEFT - 14, y + 4.5, ENTRANTS[name].title, kind="name")
    yield bar(LEFT, y, end * scale, TRACK)
    colour = OURS_COLOUR if name == "ours" else PEER_COLOUR
    for unit, (start, stop) in work(seen, until=end):
        yield bar(LEFT + start * scale, y, (stop - start) * scale, colour, hint=f"{unit} {start:.2f}-{stop:.2f} s")
    if seen.lease is not None:
        yield lease(LEFT + seen.lease * scale, y)
    if seen.ready is not None:
        yield diamond(LEFT + seen.ready * scale, y)
    if seen.login is not None:
        yield dot(LEFT + seen.login * scale, y)
    yield text(LEFT + end * scale + 13, y + 4.5, f"{seen.login:.2f} s" if seen.login is not None else "no login")


def work(seen: Seen, *, until: float) -> Iterator[tuple[str, tuple[float, float]]]:
    """Each unit of the agent, from its start until it is up; a daemon, which is up at once, until Ready."""
    for unit, (start, up) in seen.units.items():
        if unit in UNITS or start > until:
            continue
        daemon = unit == "walinuxagent.service"
        end = seen.ready if seen.ready is not None and seen.ready > start else until
        yield unit, (start, min(until, end if daemon or up is None else up))
