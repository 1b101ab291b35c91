#!/usr/bin/env python3
"""A scripted model for `scripts/test-agents`: real agents talk to it, and it makes them call our tools.

It creates a workspace, runs one long command in it, waits for the job if the command became one, and ends. It keeps no
state: the next step follows from the tool results in the request. It speaks the APIs of Anthropic (messages), OpenAI
(chat completions, responses) and Google (generateContent). Every tool result in a request is appended to a file, one
JSON string per line: this is what the agent's model received.

usage: scripted_model.py WORKSPACE COMMAND RESULTS    prints the port it listens on
"""

import gzip
import json
import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

WORKSPACE, COMMAND, RESULTS = sys.argv[1:4]
# Enough calls for any command of the test.
MOST_CALLS = 20
OFFERED = re.compile(r"(?:^|[^a-z])(workspace_create|exec)$")


class Tools(dict):
    """Maps our tool names to the agent's names for them, with their namespace if any."""

    def add(self, name, namespace=None):
        known = OFFERED.search(name)
        if known:
            self.setdefault(known.group(1), (name, namespace))


def next_step(tools, results):
    """The name of a tool, its namespace and its arguments; or a text, which ends the conversation."""
    if not tools:
        return "no tools"
    if not results:
        return (*tools["workspace_create"], {"name": WORKSPACE})
    if len(results) == 1:
        return (*tools["exec"], {"workspace_id": WORKSPACE, "command": COMMAND, "timeout_secs": 900})
    job = re.search(r"call exec again with job_id (\d+)", results[-1])
    if job and len(results) < MOST_CALLS:
        arguments = {"workspace_id": WORKSPACE, "command": "", "job_id": int(job.group(1)), "timeout_secs": 900}
        return (*tools["exec"], arguments)
    return "done"


def text_of(content):
    """The text of a tool result, which is a string or a list of blocks."""
    if isinstance(content, list):
        return "\n".join(block.get("text", "") if isinstance(block, dict) else str(block) for block in content)
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)


def anthropic(body):
    tools = Tools()
    for tool in body.get("tools") or []:
        tools.add(tool["name"])
    blocks = [block for message in body["messages"] if isinstance(message["content"], list) for block in message["content"]]
    results = [text_of(block.get("content")) for block in blocks if block.get("type") == "tool_result"]
    step = next_step(tools, results)
    if isinstance(step, str):
        block, empty = {"type": "text", "text": step}, {"type": "text", "text": ""}
        delta, reason = {"type": "text_delta", "text": step}, "end_turn"
    else:
        name, _, arguments = step
        block = {"type": "tool_use", "id": f"toolu_{len(results)}", "name": name, "input": arguments}
        empty = {**block, "input": {}}
        delta, reason = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}, "tool_use"
    message = {"id": f"msg_{len(results)}", "type": "message", "role": "assistant", "model": body.get("model")}
    message |= {"stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}}
    whole = {**message, "content": [block], "stop_reason": reason}
    events = [
        {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": empty},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
    ]
    return results, whole, [(event["type"], event) for event in events]


def chat(body):
    tools = Tools()
    for tool in body.get("tools") or []:
        tools.add(tool["function"]["name"])
    results = [text_of(message.get("content")) for message in body["messages"] if message["role"] == "tool"]
    step = next_step(tools, results)
    if isinstance(step, str):
        message, reason = {"role": "assistant", "content": step}, "stop"
    else:
        name, _, arguments = step
        call = {"name": name, "arguments": json.dumps(arguments)}
        calls = [{"index": 0, "id": f"call_{len(results)}", "type": "function", "function": call}]
        message, reason = {"role": "assistant", "content": None, "tool_calls": calls}, "tool_calls"
    head = {"id": "chat", "created": 1, "model": body.get("model")}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    choice = {"index": 0, "message": message, "finish_reason": reason}
    whole = {**head, "object": "chat.completion", "choices": [choice], "usage": usage}
    chunk = {**head, "object": "chat.completion.chunk"}
    events = [
        {**chunk, "choices": [{"index": 0, "delta": message, "finish_reason": None}]},
        {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]},
        {**chunk, "choices": [], "usage": usage},
        "[DONE]",
    ]
    return results, whole, [(None, event) for event in events]


def responses(body):
    tools = Tools()
    for tool in body.get("tools") or []:
        if tool.get("type") == "namespace":
            for inner in tool.get("tools") or []:
                tools.add(inner["name"], tool["name"])
        elif "name" in tool:
            tools.add(tool["name"])
    given = [item for item in body.get("input") or [] if isinstance(item, dict)]
    results = [text_of(item.get("output")) for item in given if item.get("type") == "function_call_output"]
    step = next_step(tools, results)
    number = len(results)
    if isinstance(step, str):
        content = [{"type": "output_text", "text": step, "annotations": []}]
        item = {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed", "content": content}
    else:
        name, namespace, arguments = step
        item = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "name": name}
        item |= {"arguments": json.dumps(arguments), "status": "completed"}
        item |= {"namespace": namespace} if namespace else {}
    whole = {"id": f"resp_{number}", "object": "response", "created_at": 1, "model": body.get("model")}
    whole |= {"status": "completed", "output": [item]}
    whole["usage"] = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    events = [
        {"type": "response.created", "response": {**whole, "status": "in_progress", "output": []}},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": whole},
    ]
    return results, whole, [(event["type"], event) for event in events]


def gemini(body):
    tools = Tools()
    for group in body.get("tools") or []:
        for tool in group.get("functionDeclarations") or []:
            tools.add(tool["name"])
    parts = [part for content in body.get("contents") or [] for part in content.get("parts") or []]
    results = [text_of(part["functionResponse"].get("response")) for part in parts if "functionResponse" in part]
    step = next_step(tools, results)
    if isinstance(step, str):
        # Without tools, the agent asks which model to use and who speaks next.
        answer = {"reasoning": "", "next_speaker": "user", "complexity_reasoning": "", "complexity_score": 1}
        part = {"text": step if tools else json.dumps(answer)}
    else:
        part = {"functionCall": {"name": step[0], "args": step[2]}}
    whole = {
        "candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
    }
    return results, whole, [(None, whole)]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.answer(200, {"object": "list", "data": [{"id": "scripted", "object": "model"}]})

    def do_HEAD(self):
        self.answer(200, None)

    def do_POST(self):
        body = self.body()
        path = self.path.split("?")[0]
        if path.endswith("/count_tokens"):
            return self.answer(200, {"input_tokens": 1})
        if path.endswith(":countTokens"):
            return self.answer(200, {"totalTokens": 1})
        for end, speak in (
            ("/messages", anthropic),
            ("/chat/completions", chat),
            ("/responses", responses),
            (":generateContent", gemini),
            (":streamGenerateContent", gemini),
        ):
            if path.endswith(end):
                results, whole, events = speak(body)
                remember(results)
                streamed = body.get("stream") or end == ":streamGenerateContent"
                return self.stream(events) if streamed else self.answer(200, whole)
        return self.answer(404, {"error": {"message": f"nothing at {path}"}})

    def body(self):
        if self.headers.get("transfer-encoding", "").lower() == "chunked":
            data = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                data += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            data = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.headers.get("content-encoding", "").lower() == "gzip":
            data = gzip.decompress(data)
        return json.loads(data or b"{}")

    def answer(self, status, value):
        data = b"" if value is None else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def stream(self, events):
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        for number, (name, event) in enumerate(events):
            if name and name.startswith("response."):
                event["sequence_number"] = number
            head = f"event: {name}\n" if name else ""
            data = event if isinstance(event, str) else json.dumps(event)
            self.wfile.write(f"{head}data: {data}\n\n".encode())
        self.wfile.flush()
        self.close_connection = True


def remember(results):
    """Keeps the results of the longest conversation so far."""
    with open(RESULTS, encoding="utf-8") as file:
        known = sum(1 for _ in file)
    with open(RESULTS, "a", encoding="utf-8") as file:
        file.writelines(json.dumps(result) + "\n" for result in results[known:])


if __name__ == "__main__":
    open(RESULTS, "w", encoding="utf-8").close()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    print(server.server_address[1], flush=True)
    server.serve_forever()
