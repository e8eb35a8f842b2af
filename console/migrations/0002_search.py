"""What finding an order by a piece of a name needs: a trigram index over names and addresses without accents.

The expression of the index is the function `console_plain`, which the search applies to what was typed as well.
`pg_trgm` comes with PostgreSQL and may be created by the owner of the database.
"""

from django.contrib.postgres.operations import TrigramExtension
from django.db import migrations

# Lower case, without accents: NFKD takes letters apart, the combining marks are dropped, and what has no
# decomposition is written in its usual Latin way.
PLAIN = r"""
CREATE OR REPLACE FUNCTION console_plain(given text) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
SELECT replace(replace(replace(translate(
    regexp_replace(normalize(lower(given), NFKD), '[\u0300-\u036f]', '', 'g'),
    'øłđħı', 'oldhi'), 'ß', 'ss'), 'æ', 'ae'), 'œ', 'oe')
$$"""


class Migration(migrations.Migration):
    dependencies = [("console", "0001_roles"), ("orders", "0001_initial")]

    operations = [
        TrigramExtension(),
        migrations.RunSQL(PLAIN, "DROP FUNCTION IF EXISTS console_plain(text)"),
        migrations.RunSQL(
            "CREATE INDEX IF NOT EXISTS console_buyer_plain ON orders_buyerdetails"
            " USING gin (console_plain(name || ' ' || email) gin_trgm_ops)",
            "DROP INDEX IF EXISTS console_buyer_plain",
        ),
    ]
