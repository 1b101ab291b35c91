"""Runs a long command through the official Python SDK with its default settings, and records the results.

usage: mcp_client.py AGENTISO WORKSPACE COMMAND RESULTS
"""

import asyncio
import json
import os
import re
import sys

from mcp import Client, StdioServerParameters

AGENTISO, WORKSPACE, COMMAND, RESULTS = sys.argv[1:5]


async def main():
    server = StdioServerParameters(command=AGENTISO, args=["serve"], env=dict(os.environ))
    with open(RESULTS, "w", encoding="utf-8") as file:
        async with Client(server) as client:

            async def call(tool, **arguments):
                try:
                    result = await client.call_tool(tool, arguments)
                    text = "\n".join(block.text for block in result.content if block.type == "text")
                except Exception as error:
                    text = f"{type(error).__name__}: {error}"
                file.write(json.dumps(text) + "\n")
                return text

            await call("workspace_create", name=WORKSPACE)
            text = await call("exec", workspace_id=WORKSPACE, command=COMMAND, timeout_secs=900)
            while job := re.search(r"call exec again with job_id (\d+)", text):
                text = await call(
                    "exec", workspace_id=WORKSPACE, command="", job_id=int(job.group(1)), timeout_secs=900
                )


asyncio.run(main())
