"""What the pages show: pure functions from the record to frozen dataclasses, which know no HTML."""
