"""Reads of the pages, one module per page: each says what one page needs in as few statements as possible."""
