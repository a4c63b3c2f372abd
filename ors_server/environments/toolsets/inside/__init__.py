"""Programs that run inside a sandbox, sent there as text; they import nothing but the standard library."""
