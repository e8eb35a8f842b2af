"""The four roles as groups. They carry no Django permissions: the core judges by role, the pages mirror it."""

from django.db import migrations

ROLES = ("support", "operator", "manager", "admin")


def make_groups(apps, schema_editor):
    group = apps.get_model("auth", "Group")
    for name in ROLES:
        group.objects.using(schema_editor.connection.alias).get_or_create(name=name)


class Migration(migrations.Migration):
    initial = True
    dependencies = [("auth", "0012_alter_user_first_name_max_length")]
    # Going back keeps the groups: accounts may be in them.
    operations = [migrations.RunPython(make_groups, migrations.RunPython.noop, elidable=False)]
