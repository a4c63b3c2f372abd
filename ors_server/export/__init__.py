"""Records in the forms that trainers and other tools read, and back."""
