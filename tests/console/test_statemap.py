"""The state map: every state once, every way out of the table drawn and said, nothing drawn that the table lacks."""

from datetime import UTC, datetime
from itertools import pairwise

import pytest

from console import statemap
from orders.protocol.lifecycle import ORDER
from orders.protocol.vocabulary import State

AT = datetime(2026, 11, 14, 21, 2, tzinfo=UTC)
ROAD = (
    State.DRAFT,
    State.PLACED,
    State.INVENTORY_RESERVED,
    State.PAYMENT_PENDING,
    State.FULFILLMENT_PENDING,
    State.RECALL_PENDING,
    State.REFUND_PENDING,
    State.MANUAL_REVIEW,
)


def drawn(here: State, road: tuple[State, ...] = ()) -> statemap.StateMap:
    moves = [(a, b, AT) for a, b in pairwise(road)]
    return statemap.draw(here, moves, lambda state: state.replace("_", " "), AT)


@pytest.mark.parametrize("here", State)
def test_every_way_out_is_drawn_and_said(here):
    picture = drawn(here)
    table = {target for origin, target in ORDER.edges() if origin == here}
    assert {edge.target for edge in picture.edges if edge.css == "next"} == table
    assert {way.target for way in picture.ways} == table
    for way in picture.ways:
        told = {event for event, _ in way.causes}
        assert told == {str(r.event) for r in ORDER.rules if r.state == here and r.target == way.target}


@pytest.mark.parametrize("here", State)
def test_nothing_is_drawn_that_the_table_lacks(here):
    assert {(edge.origin, edge.target) for edge in drawn(here, ROAD).edges} <= ORDER.edges()


def test_every_state_stands_once_and_apart():
    nodes = drawn(State.DRAFT).nodes
    assert {node.state for node in nodes} == set(State)
    for a in nodes:
        assert a.x >= 0 and a.y >= 0
        assert a.x + a.width <= statemap.WIDTH and a.y + a.height <= statemap.HEIGHT
        for b in nodes:
            apart = a.x + a.width <= b.x or b.x + b.width <= a.x or a.y + a.height <= b.y or b.y + b.height <= a.y
            assert a is b or apart, f"{a.state} lies over {b.state}"


def test_where_it_is_was_and_can_go():
    picture = drawn(State.REFUND_PENDING, ROAD[:7])
    css = {node.state: node.css for node in picture.nodes}
    assert css[State.REFUND_PENDING] == "here"
    assert css[State.DRAFT] == css[State.RECALL_PENDING] == "past"
    assert css[State.CANCELLED] == css[State.MANUAL_REVIEW] == "next"
    assert css[State.SHIPPED] == ""
    assert picture.came_from == ROAD[:6]
    entered = {node.state: node.at for node in picture.nodes}
    assert entered[State.DRAFT] == entered[State.REFUND_PENDING] == AT
    assert entered[State.SHIPPED] is None


@pytest.mark.parametrize("here", State)
def test_no_line_runs_through_a_state_it_does_not_belong_to(here):
    picture = drawn(here, ROAD)
    for edge in picture.edges:
        corners = [tuple(map(int, pair.strip("ML").split())) for pair in edge.line.replace(" L", ";L").split(";")]
        for (x1, y1), (x2, y2) in pairwise(corners):
            assert x1 == x2 or y1 == y2, "lines run straight"
            for node in picture.nodes:
                if node.state in (edge.origin, edge.target):
                    continue
                left, right = node.x, node.x + node.width
                inside_x = max(min(x1, x2), left) < min(max(x1, x2), right) or left < x1 == x2 < right
                inside_y = max(min(y1, y2), node.y) < min(max(y1, y2), node.y + node.height)
                inside_y = inside_y or node.y < y1 == y2 < node.y + node.height
                assert not (inside_x and inside_y), f"{edge.origin} -> {edge.target} crosses {node.state}"


def test_a_terminal_state_leads_nowhere():
    assert drawn(State.CANCELLED).ways == ()


def test_an_order_taken_in_from_elsewhere_has_no_past():
    picture = drawn(State.SHIPPED)
    assert picture.came_from == ()
    assert {node.state: node.at for node in picture.nodes}[State.SHIPPED] == AT
