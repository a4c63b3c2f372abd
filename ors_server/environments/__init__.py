"""The interface for authors of environments, and the definitions that the server makes when it loads them."""
