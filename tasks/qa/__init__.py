"""Questions about an invented encyclopaedia, which an agent may search and read."""

from ors_server_tasks.qa.environment import QuestionAnswering

__all__ = ["QuestionAnswering"]
