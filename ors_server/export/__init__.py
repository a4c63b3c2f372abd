"""Records in the formats that trainers and other tools read, and back.

`formats.export_lines` and `formats.export_rows` turn episodes into lines and rows, `preferences` pairs them,
`tables.TableWriter` writes parquet, `atomic_file` writes a file completely or not at all. All of them stream:
they hold one episode at a time.
"""
