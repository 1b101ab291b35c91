"""All of LangChain's standard sandbox tests."""

import pytest
from langchain_tests.integration_tests import SandboxIntegrationTests

from agentiso.langchain import AgentisoSandbox


class TestAgentiso(SandboxIntegrationTests):
    @pytest.fixture(scope="class")
    def sandbox(self):
        sandbox = AgentisoSandbox.create()
        yield sandbox
        sandbox.close()
