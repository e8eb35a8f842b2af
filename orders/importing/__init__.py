"""Adopting the orders of another shop's export: a file is read row by row, mapped, checked and taken in by `intake`.

    reading   bytes of a CSV or JSON-lines file -> records with their line
    mapping   the small TOML file that says what the shop's columns and words mean
    rows      one record -> one `Adoption`, or the reason why not
    run       batches, the report of refused rows, the sums

No rule of the protocol is here: what an order in a state needs is judged by `adopted`.
"""

from orders.importing.mapping import Mapping, MappingError, read_mapping
from orders.importing.reading import FileRefused, Record, survey
from orders.importing.rows import RowRefused
from orders.importing.run import Refusal, Sums, import_file

__all__ = [
    "FileRefused",
    "Mapping",
    "MappingError",
    "Record",
    "Refusal",
    "RowRefused",
    "Sums",
    "import_file",
    "read_mapping",
    "survey",
]
