"""All of Inspect's own sandbox checks."""

import pytest_asyncio
from inspect_ai.util._sandbox.self_check import *  # noqa: F403

from agentiso.inspect import AgentisoConfig, AgentisoSandbox


@pytest_asyncio.fixture
async def sandbox_env():
    sandbox = await AgentisoSandbox.create(AgentisoConfig())
    yield sandbox
    await sandbox.destroy()
