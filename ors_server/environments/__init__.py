"""What an environment's author writes against, and what the server makes of it when it is loaded."""
