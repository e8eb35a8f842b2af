"""The domain of Unstuck: orders, the promises they make to the outside, and the one boundary that moves them."""
