"""The state map: where an order is, where it came from, where it can go, as geometry and as words. Pure.

Every line is an edge of the declared table. Lines the order took or can take are routed in full; of the others only
those between neighbours are drawn, faintly, so that the map stays readable. The template writes it as SVG.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

from orders.protocol.lifecycle import ORDER
from orders.protocol.machine import Rule
from orders.protocol.vocabulary import EventKind, State

# (column, row). The road of an undisturbed order is the top row; the review is a bar under all of them.
PLACES: dict[State, tuple[int, int]] = {
    State.DRAFT: (0, 0),
    State.PLACED: (1, 0),
    State.INVENTORY_RESERVED: (2, 0),
    State.PAYMENT_PENDING: (3, 0),
    State.FULFILLMENT_PENDING: (4, 0),
    State.SHIPPED: (5, 0),
    State.DELIVERED: (6, 0),
    State.CANCELLATION_PENDING: (3, 1),
    State.RECALL_PENDING: (4, 1),
    State.REFUND_PENDING: (5, 1),
    State.CANCELLED: (6, 1),
    State.MANUAL_REVIEW: (0, 2),
}
REVIEW = State.MANUAL_REVIEW
_PITCH, _WIDE, _HIGH, _TOP = 148, 108, 54, 6
_ROWS = (_TOP, _TOP + 104, _TOP + 208)
WIDTH, HEIGHT = 6 * _PITCH + _WIDE + 4, _ROWS[2] + 40 + 6
_LANE = 7  # between lines that share a channel
_TIP = 7


@dataclass(frozen=True, slots=True)
class Node:
    """A state: its box, its name in one or two lines, and when it was entered."""

    state: State
    css: str  # here, past, next or nothing
    x: int
    y: int
    width: int
    height: int
    lines: tuple[tuple[int, int, str], ...]
    at: datetime | None = None
    at_x: int = 0
    at_y: int = 0


@dataclass(frozen=True, slots=True)
class Edge:
    """A movement: its line and its arrowhead, as SVG paths."""

    origin: State
    target: State
    css: str
    line: str
    tip: str


@dataclass(frozen=True, slots=True)
class Way:
    """One way out of the state: the events that lead there, each with the names of the guards that must hold."""

    target: State
    causes: tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class StateMap:
    """What the template draws and says."""

    width: int
    height: int
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    came_from: tuple[State, ...]
    ways: tuple[Way, ...]


def draw(
    here: State,
    moves: Iterable[tuple[State, State, datetime]],
    label: Callable[[State], str],
    began: datetime | None = None,
) -> StateMap:
    """The map of an order in `here` with its moves (from, to, when), oldest first; `began` is when it was opened."""
    taken = list(moves)
    entered: dict[State, datetime] = {}
    if began is not None:
        entered[taken[0][0] if taken else here] = began
    entered.update({target: at for _, target, at in taken})
    visited = {origin for origin, _, _ in taken} | {target for _, target, _ in taken}
    nexts = {State(target) for origin, target in ORDER.edges() if origin == here}
    css = {state: "past" if state in visited else "next" if state in nexts else "" for state in State} | {here: "here"}
    came_from = dict.fromkeys(origin for origin, _, _ in taken if origin != here)
    return StateMap(
        WIDTH,
        HEIGHT,
        tuple(_node(state, css[state], label(state), entered.get(state)) for state in PLACES),
        tuple(_edges({(a, b) for a, b, _ in taken}, here)),
        tuple(came_from),
        ways_out(here),
    )


def ways_out(here: State) -> tuple[Way, ...]:
    """Where an order in this state can go and what takes it there, from the table; facts and clocks before wishes."""
    found: dict[State, list[Rule]] = defaultdict(list)
    for rule in ORDER.rules:
        if rule.state == here and rule.target is not None:
            found[State(rule.target)].append(rule)
    ways = []
    for target in sorted(found, key=lambda state: PLACES[state][::-1]):
        rules = sorted(found[target], key=lambda rule: ORDER.events[rule.event].kind == EventKind.WISH)
        causes = dict.fromkeys((str(rule.event), (*rule.when, *rule.guards)) for rule in rules)
        ways.append(Way(target, tuple(causes)))
    return tuple(ways)


# -- geometry ----------------------------------------------------------------------------------------------------------


def _box(state: State) -> tuple[int, int, int, int]:
    column, row = PLACES[state]
    if state == REVIEW:
        return 2, _ROWS[2], WIDTH - 4, 40
    return 2 + column * _PITCH, _ROWS[row], _WIDE, _HIGH


def _node(state: State, css: str, text: str, at: datetime | None) -> Node:
    x, y, width, height = _box(state)
    middle = x + width // 2
    if state == REVIEW:
        return Node(state, css, x, y, width, height, ((middle, y + 25, text),), at, middle + 130, y + 25)
    words = text.split()
    half = (len(words) + 1) // 2
    lines = [" ".join(words[:half]), " ".join(words[half:])] if len(text) > 12 and len(words) > 1 else [text]
    first = y + 23 if at and len(lines) == 1 else y + 16 if at else y + 32 if len(lines) == 1 else y + 24
    return Node(
        state,
        css,
        x,
        y,
        width,
        height,
        tuple((middle, first + 15 * index, line) for index, line in enumerate(lines)),
        at,
        middle,
        y + 46,
    )


def _edges(taken: set[tuple[State, State]], here: State) -> list[Edge]:
    """The edges to draw, faint ones first so that the others lie above them."""
    shown: list[tuple[State, State, str]] = []
    for a, b in sorted(ORDER.edges(), key=str):
        origin, target = State(a), State(b)
        css = "past" if (origin, target) in taken else "next" if origin == here else ""
        if css or _neighbours(origin, target):
            shown.append((origin, target, css))
    shown.sort(key=lambda edge: ("", "past", "next").index(edge[2]))
    ports = _Ports(shown)
    return [Edge(o, t, css, *_path(ports.points(o, t))) for o, t, css in shown]


def _neighbours(origin: State, target: State) -> bool:
    (c1, r1), (c2, r2) = PLACES[origin], PLACES[target]
    if REVIEW in (origin, target):
        return False
    return abs(c1 - c2) + abs(r1 - r2) == 1


class _Ports:
    """Gives every line its own place on the sides of the boxes and its own lane in the channels between the rows."""

    def __init__(self, shown: list[tuple[State, State, str]]) -> None:
        self._lanes: dict[tuple[State, State], tuple[int, int]] = {}
        self._on_side: dict[tuple[State, str], list[tuple[State, State]]] = defaultdict(list)
        used: dict[int, int] = defaultdict(int)
        for origin, target, _ in shown:
            for state, other in ((origin, target), (target, origin)):
                self._on_side[state, _side(state, other)].append((origin, target))
            if not _straight(origin, target):
                channel = 2 if PLACES[origin][1] == PLACES[target][1] == 1 else 1
                self._lanes[origin, target] = (channel, used[channel])
                used[channel] += 1
        for (state, side), lines in self._on_side.items():
            axis = 0 if side in ("top", "bottom") else 1
            # sorted by where they lead, so that lines do not cross; a pair there and back lies alike on both boxes
            lines.sort(key=lambda line, at=state, axis=axis: (_centre(line[line[0] == at])[axis], line))

    def _port(self, state: State, other: State, line: tuple[State, State]) -> tuple[int, int]:
        x, y, width, height = _box(state)
        side = _side(state, other)
        lines = self._on_side[state, side]
        index, count = lines.index(line), len(lines)
        if side in ("left", "right"):
            return x + width * (side == "right"), y + height * (index + 1) // (count + 1)
        level = y + height * (side == "bottom")
        return x + width * (index + 1) // (count + 1), level

    def points(self, origin: State, target: State) -> list[tuple[int, int]]:
        """The corners of one line."""
        line = (origin, target)
        start, end = self._port(origin, target, line), self._port(target, origin, line)
        if REVIEW in line:
            # the bar is wide: it is met right below the other end, beside whatever stands in between
            other = target if origin == REVIEW else origin
            near = start if other == origin else end
            column, row = PLACES[other]
            bar = _ROWS[2]
            if row == 1 or column < 3:
                points = [near, (near[0], bar)]
            else:
                beside = -(_PITCH - _WIDE) // 2 if column == 6 else _WIDE + (_PITCH - _WIDE) // 2
                gutter = 2 + column * _PITCH + beside + (6 if origin == REVIEW else -6)
                level = _ROWS[0] + _HIGH + 8
                points = [near, (near[0], level), (gutter, level), (gutter, bar)]
            return points if other == origin else points[::-1]
        if _straight(origin, target):
            if start[0] != end[0] and start[1] != end[1]:  # ports of unequal sides: level them
                horizontal = PLACES[origin][1] == PLACES[target][1]
                end = (end[0], start[1]) if horizontal else (start[0], end[1])
            return [start, end]
        channel, lane = self._lanes[line]
        level = _ROWS[channel - 1] + _HIGH + 14 + lane * _LANE % 35
        return [start, (start[0], level), (end[0], level), end]


def _straight(origin: State, target: State) -> bool:
    return _neighbours(origin, target) or REVIEW in (origin, target)


def _centre(state: State) -> tuple[int, int]:
    x, y, width, height = _box(state)
    return x + width // 2, y + height // 2


def _side(state: State, other: State) -> str:
    """On which side of `state` a line to or from `other` begins or ends."""
    (column, row), (to_column, to_row) = PLACES[state], PLACES[other]
    if REVIEW in (state, other):
        return "top" if state == REVIEW else "bottom"
    if row == to_row and abs(column - to_column) == 1:
        return "right" if to_column > column else "left"
    if row == to_row:
        return "bottom"
    return "bottom" if to_row > row else "top"


def _path(points: list[tuple[int, int]]) -> tuple[str, str]:
    """The line, ending where its arrowhead begins, and the arrowhead."""
    (px, py), (x, y) = points[-2], points[-1]
    dx, dy = (x > px) - (x < px), (y > py) - (y < py)
    end = (x - dx * _TIP, y - dy * _TIP)
    steps = " ".join(f"L{px} {py}" for px, py in [*points[1:-1], end])
    line = f"M{points[0][0]} {points[0][1]} {steps}"
    side_x, side_y = 4 * abs(dy), 4 * abs(dx)
    tip = f"M{x} {y}L{end[0] - side_x} {end[1] - side_y}L{end[0] + side_x} {end[1] + side_y}Z"
    return line, tip
