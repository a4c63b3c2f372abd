"""Container images from files, unpacked by ourselves into a cache, without a daemon or a registry."""
