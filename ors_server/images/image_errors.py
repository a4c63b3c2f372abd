"""Errors of images."""

from ors_server.model.errors import AuthorError


class ImageError(AuthorError):
    """An image cannot be used: it is not in the cache, or the cache failed."""


class UnknownImageError(ImageError):
    """No image, and no file of one, has this name."""


class ImageRefusedError(ImageError):
    """A file is not an image that may be unpacked; the cache is as it was."""
