"""The pure part: no Django, no database, no clock, no environment. What one must read to know what the product does."""
