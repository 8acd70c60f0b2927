"""The SQL database, the only source of truth: schema, migrations, sessions, and SQL by verb, one module a topic."""
