"""Records in the forms that trainers and other tools read, and back.

`forms.export_lines` and `forms.export_rows` turn episodes into lines and rows, `preferences` pairs them,
`tables.TableWriter` writes parquet, `output.whole_file` writes a file that is there whole or not at all.
Every one of them takes episodes as they come and keeps none.
"""
