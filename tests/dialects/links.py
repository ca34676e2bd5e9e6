"""Three transports to the server, with the standard library only: lines, frames and HTTP."""

import http.client
import json
import subprocess
import threading
import queue

TIMEOUT = 30


class Process:
    """The program on pipes; its messages arrive in one queue."""

    def __init__(self, command, read):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.received = queue.Queue()
        threading.Thread(target=self.listen, args=(read,), daemon=True).start()

    def listen(self, read):
        while (message := read(self.process.stdout)) is not None:
            self.received.put(json.loads(message))
        self.received.put(None)

    def write(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def receive(self):
        return self.received.get(timeout=TIMEOUT)

    def ended(self):
        """Waits for the program to end by itself; returns the exit status."""
        return self.process.wait(timeout=TIMEOUT)

    def close(self):
        self.process.stdin.close()
        return self.ended()


class Lines(Process):
    """One message per line."""

    def __init__(self, command):
        super().__init__(command, lambda out: out.readline() or None)

    def send(self, message):
        self.write(json.dumps(message).encode() + b"\n")

    def updates(self):
        return self.receive


class Frames(Process):
    """A Content-Length before each message."""

    def __init__(self, command):
        super().__init__(command, self.frame)

    @staticmethod
    def frame(out):
        length = None
        while (line := out.readline()) not in (b"\r\n", b""):
            name, value = line.decode().split(":", 1)
            if name.lower() == "content-length":
                length = int(value)
        return out.read(length) if length is not None else None

    def send(self, message):
        body = json.dumps(message).encode()
        self.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)


class Http:
    """Streamable HTTP with a session."""

    def __init__(self, address):
        self.address, self.session, self.received = address, None, queue.Queue()

    def request(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection(self.address, timeout=TIMEOUT)
        connection.request(method, path, body, headers or {})
        return connection.getresponse()

    def headers(self):
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        if self.session:
            headers["Mcp-Session-Id"] = self.session
        return headers

    def send(self, message):
        answer = self.request("POST", "/mcp", json.dumps(message), self.headers())
        self.session = answer.headers.get("Mcp-Session-Id", self.session)
        self.status = answer.status
        body = answer.read()
        if body:
            self.received.put(json.loads(body))

    def receive(self):
        return self.received.get(timeout=TIMEOUT)

    def updates(self):
        """Opens the notification stream; returns a function that waits for the next message."""
        stream = self.request("GET", "/mcp", headers=self.headers())
        assert stream.status == 200, stream.status

        def receive():
            while True:
                line = stream.readline()
                assert line, "the stream ended"
                if line.startswith(b"data: ") and line.strip() != b"data:":
                    return json.loads(line[6:])

        return receive
