"""The `message_user` tool: an agent writes to the simulated user of its episode."""

from typing_extensions import override

from ors_server.environments.argument_names import only_these_arguments
from ors_server.environments.simulated_user.conversation import conversation_of
from ors_server.environments.tool import Toolset, tool
from ors_server.model.errors import EnvironmentDefinitionError


class UserTools(Toolset):
    """Lets the agent write to the user that the environment's `make_user` returns."""

    @override
    @classmethod
    def check_environment(cls, environment: type) -> None:
        hook = getattr(environment, "make_user", None)
        if hook is None or hook.__module__ == "ors_server.environments.environment":
            raise EnvironmentDefinitionError(
                f"{environment.__name__} takes the user toolset and must define make_user, which returns a "
                "user, such as choose_user(UserScript(...))"
            )

    @tool
    @only_these_arguments(message="text", content="text")
    async def message_user(self, text: str) -> str:
        """Send the user a message and read the answer.

        Args:
            text: What the user shall read.
        """
        return await conversation_of(self.environment).send(text)
