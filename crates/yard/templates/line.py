"""Reads one JSON line, writes one JSON line; earlier lines on stdout go to the log."""
import json
import sys

arguments = json.loads(sys.stdin.readline())["arguments"]
print(json.dumps({"greeting": f"Hello, {arguments['name']}!"}))
