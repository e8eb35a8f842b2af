"""What tests and scenarios are built from: people, orders in a given state, and the check of all invariants."""
