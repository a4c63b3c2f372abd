"""A customer-service desk over a small database, with a simulated customer who answers."""

from ors_server_tasks.support_desk.environment import SupportDesk

__all__ = ["SupportDesk"]
