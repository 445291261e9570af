"""SQLite: the writer, the readers, the schema and one module per aggregate. The only folder that imports aiosqlite."""
