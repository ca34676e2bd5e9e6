import json
import sys

text = json.loads(sys.stdin.readline())["arguments"]["text"]
print(json.dumps({"first": text.split()[0], "length": len(text)}))
