"""Template tags of the console; registered as built-ins, so no template has to load them."""
