"""The WebShop environment's specification (`agentfly.envs.webshop_text_env`)."""

from ors_server.resources import WebShopSpec

__all__ = ["WebShopSpec"]
