"""One JSON line in, one JSON line out; anything else on stdout before the answer is kept as log."""
import json
import sys

arguments = json.loads(sys.stdin.readline())["arguments"]
print(json.dumps({"greeting": f"Hello, {arguments['name']}!"}))
