"""Task folders in the format of Harbor (task schema 1.0 to 1.4), served as an environment."""
